"""``quiver chain drain``: move what a node has to others, so that it may be stopped for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from quiver.cli.chains.desk import UNREADABLE, chain_options, open_place, raise_told
from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.units import parse_duration

if TYPE_CHECKING:
    from quiver.chain.membership import Members
    from quiver.chain.metadata import Metadata
    from quiver.chain.wire import WireOptions
    from quiver.errors import QuiverError

__all__ = ["drain"]

_PAUSE: Final = 1.0


class _Left(NamedTuple):
    """How many blocks list a node, and why not all records could be read."""

    block_count: int
    faults: Sequence[QuiverError]


@verb(
    "drain",
    examples=(
        ("quiver chain drain n1 --metadata /mnt/meta", "says when n1 may be stopped"),
        ("quiver chain drain n1 --timeout 0s --metadata /mnt/meta", "only say so; others do it"),
        ("quiver chain drain n1 --undo --metadata /mnt/meta", "it stays; then start it anew"),
    ),
)
@click.argument("node", metavar="NODE")
@click.option("--undo", is_flag=True, help="It is not to be left any more.")
@click.option(
    "--timeout",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Wait no longer; what was begun goes on.",
)
@chain_options
def drain(
    output: Output,
    *,
    node: str,
    undo: bool,
    timeout: str,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> int:
    """Move what a node has to others, so that it may be stopped for good.

    It gets no new blocks, loaders go on elsewhere, and its copies are made on other nodes before
    they are listed no more. That is kept until --undo, also when the node is started anew. The exit
    code is 1 if it still has blocks when the time is over: others may have no room. It is 9 if a
    record is damaged, and 5 if it is of a newer Quiver: what that lists nobody knows.
    """
    from quiver.chain.membership import Members
    from quiver.clock import SystemClock

    clock = SystemClock()
    metadata = open_place(place, options, wire=wire)
    members = Members(metadata, clock=clock, options=wire)
    if undo:
        members.unmark(node)
        left, faults = _left(metadata, node)
        _told(output, {"node": node, "is_leaving": False, "block_count": left}, faults)
        return OK
    until = clock.monotonic_ns() + parse_duration(timeout, key="--timeout")
    members.mark(node)
    left, faults = _emptied(metadata, members, node, until_ns=until)
    _told(output, {"node": node, "is_leaving": True, "block_count": left}, faults)
    return FOUND if left else OK


def _emptied(metadata: Metadata, members: Members, node: str, *, until_ns: int) -> _Left:
    """Wait until no block lists a node, and help with it; gives how many do."""
    import secrets

    from quiver.chain.tending import Auditor
    from quiver.clock import SystemClock

    clock = SystemClock()
    auditor = Auditor(metadata, members, clock=clock, random=secrets.SystemRandom())
    while (left := _left(metadata, node)).block_count and clock.monotonic_ns() < until_ns:
        members.look()
        for _ in auditor.audit():
            if clock.monotonic_ns() >= until_ns:
                break
        clock.pause(_PAUSE)
    return left


def _left(metadata: Metadata, node: str) -> _Left:
    """Count the blocks that list a node, in records that can be read."""
    from quiver.chain.membership import list_partitions
    from quiver.chain.record import Partition
    from quiver.clock import SystemClock

    left, faults = 0, []
    for name in list_partitions(metadata):
        partition = Partition(metadata, name, clock=SystemClock())
        try:
            record = partition.read()
            listed = sum(node in block.locations for block in partition.blocks_now(record))
        except UNREADABLE as error:
            faults.append(error)
            continue
        left += listed + (record.open is not None and node in record.open.locations)
    return _Left(left, faults)


def _told(output: Output, fields: dict[str, Any], faults: Sequence[QuiverError]) -> None:
    """Tell it, and raise what could not be read."""
    is_empty = not fields["block_count"] and not faults
    fields["may_be_stopped"] = fields["is_leaving"] and is_empty
    if output.as_json:
        output.document(fields)
    else:
        output.text(_words(fields))
    raise_told(output, faults)


def _words(fields: dict[str, Any]) -> str:
    node, blocks = fields["node"], count(fields["block_count"], "block")
    if not fields["is_leaving"]:
        return f"{node} stays, with {blocks}; if it drains already, start it anew"
    if fields["may_be_stopped"]:
        return f"{node} has nothing that is listed, and may be stopped"
    if not fields["block_count"]:
        return f"{node} has nothing that is listed where that can be read"
    return f"{node} still has {blocks}; nodes go on to copy them where there is room"
