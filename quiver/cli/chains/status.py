"""``quiver chain status``: nodes, and whether each block has its copies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from quiver.cli.chains.desk import UNREADABLE, chain_options, open_place, raise_told
from quiver.cli.exits import FOUND, OK, REMOTE
from quiver.cli.output import Output, size
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.membership import Member, Members
    from quiver.chain.metadata import Metadata
    from quiver.chain.wire import WireOptions
    from quiver.errors import QuiverError

__all__ = ["status"]


@verb(
    "status",
    examples=(
        ("quiver chain status --metadata /mnt/meta", "nodes, and copies that are wanted"),
        ("quiver chain status --metadata /mnt/meta --json | jq .under_replicated", "for alarms"),
    ),
)
@chain_options
def status(
    output: Output,
    *,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> int:
    """Say which nodes there are, if blocks have their copies, how far subscribers are.

    Asks every node that does not say itself that it is offline. The exit code is 1 if a block has
    fewer copies than it should have on nodes that answer, 7 if there is no such block and no node
    answers, and 9 if a record is damaged, 5 if it is of a newer Quiver: the others are shown.
    """
    from quiver.chain.membership import Members
    from quiver.clock import SystemClock

    metadata = open_place(place, options, wire=wire)
    members = Members(metadata, clock=SystemClock(), options=wire)
    found = members.look()
    with ThreadPoolExecutor(max_workers=16) as pool:
        nodes = list(pool.map(lambda member: _node(members, member), found))
    up = {each["name"] for each in nodes if each["is_reached"]}
    partitions, faults = _partitions(metadata, up)
    subscribers = _subscribers(metadata, wire)
    if output.as_json:
        wanted = sum(each["under_replicated"] for each in partitions)
        output.document(
            {
                "nodes": nodes,
                "partitions": partitions,
                "subscribers": subscribers,
                "under_replicated": wanted,
            }
        )
    else:
        _told(output, nodes, partitions)
        _told_subscribers(output, subscribers)
    raise_told(output, faults)
    if any(each["under_replicated"] for each in partitions):
        return FOUND
    return OK if up else REMOTE


def _node(members: Members, member: Member) -> dict[str, Any]:
    from quiver.errors import QuiverError

    fields: dict[str, Any] = {
        "name": member.name,
        "address": member.address,
        "host": member.host,
        "state": member.state_name,
        "free_bytes": member.free_bytes,
        "total_bytes": member.total_bytes,
        "is_reached": False,
        "block_count": None,
        "log_count": None,
        "damaged": [],
        "fault": "",
    }
    if member.state is None:
        return fields
    try:
        found = members(member.name).status()
        damaged = members(member.name).damaged()
    except QuiverError as error:
        return {**fields, "fault": error.message}
    return {
        **fields,
        "state": found.state.value,
        "is_reached": True,
        "block_count": len(found.holdings),
        "log_count": sum(each.finished is None for each in found.holdings),
        "damaged": [
            {"partition": name.partition, "number": name.number, "why": why}
            for name, why in damaged
        ],
    }


def _partitions(metadata: Metadata, up: set[str]) -> tuple[list[dict[str, Any]], list[QuiverError]]:
    from quiver.chain.membership import list_partitions
    from quiver.chain.record import Partition
    from quiver.clock import SystemClock

    rows: list[dict[str, Any]] = []
    faults: list[QuiverError] = []
    for name in list_partitions(metadata):
        partition = Partition(metadata, name, clock=SystemClock())
        try:
            record = partition.read()
            blocks = list(partition.blocks_now(record))
        except UNREADABLE as error:
            faults.append(error)
            continue
        copies = [(block.rf, block.locations) for block in blocks if not block.is_abandoned]
        if record.open is not None:
            copies.append((record.rf, record.open.locations))
        present = [len(up.intersection(locations)) for _, locations in copies]
        rows.append(
            {
                "partition": name,
                "rf": record.rf,
                "block_count": len(blocks),
                "writer": record.writer,
                "is_open": record.open is not None,
                "under_replicated": sum(
                    there < rf for there, (rf, _) in zip(present, copies, strict=True)
                ),
                "without_copy": sum(not there for there in present),
                "abandoned": sum(block.is_abandoned for block in blocks),
            }
        )
    return rows, faults


def _subscribers(metadata: Metadata, wire: WireOptions) -> list[dict[str, Any]]:
    from quiver.chain.cluster import Cluster

    with Cluster(metadata, options=wire) as cluster:
        return [
            {
                "name": view.name,
                "wants_all": view.wants_all,
                "is_taken": view.is_taken,
                "is_paused": view.is_paused,
                "fault": view.fault,
                "partitions": [mark._asdict() for mark in view.marks],
            }
            for view in cluster.subscribers()
        ]


def _told_subscribers(output: Output, subscribers: list[dict[str, Any]]) -> None:
    columns = ["partition", "floor", "open_count", "blocks_behind", "letter_count", "pinned"]
    rows = [
        [each["name"], *(mark[name] for name in columns)]
        for each in subscribers
        for mark in each["partitions"]
    ]
    if not all(each["fault"] for each in subscribers):
        titles = ["partition", "floor", "open", "blocks behind", "dead letters", "needs from"]
        output.table("subscribers", ["name", *titles], rows, empty="none has begun")
    for each in subscribers:
        if each["fault"]:
            output.warn(f"subscriber {each['name']}: {each['fault']}")
        if each["is_paused"]:
            output.text(f"{each['name']} is paused: quiver chain resume lets it go on")


def _told(output: Output, nodes: list[dict[str, Any]], partitions: list[dict[str, Any]]) -> None:
    rows = [
        [
            each["name"],
            each["address"],
            each["host"],
            each["state"] if each["is_reached"] or not each["fault"] else "not reached",
            size(each["free_bytes"]),
            each["block_count"],
        ]
        for each in nodes
    ]
    output.table(
        "nodes", ["name", "address", "host", "state", "free", "blocks"], rows, empty="none"
    )
    wrong = [
        [each["name"], copy["partition"], copy["number"], copy["why"]]
        for each in nodes
        for copy in each["damaged"]
    ]
    if wrong:
        output.table("damaged", ["node", "partition", "block", "why"], wrong, empty="none")
    for each in nodes:
        if each["fault"]:
            output.warn(each["fault"])
    columns = ["partition", "rf", "block_count", "under_replicated", "without_copy", "abandoned"]
    values = [[each[name] for name in columns] for each in partitions]
    output.table("partitions", [name.replace("_", " ") for name in columns], values, empty="none")
