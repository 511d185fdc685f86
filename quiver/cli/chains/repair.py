"""``quiver chain repair``: one pass over all partitions now, and what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.chains.desk import chain_options, open_place, refusals
from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.membership import Members
    from quiver.chain.wire import WireOptions
    from quiver.clock import Clock

__all__ = ["repair"]

_OFTEN: Final = ("settle", "verify")


@verb(
    "repair",
    examples=(
        ("quiver chain repair --metadata /mnt/meta", "after a machine is lost, without a wait"),
        ("quiver chain repair --metadata /mnt/meta --json | jq '.acts[]'", "what was done"),
        ("quiver chain repair --metadata /mnt/meta --verify", "read all segments first"),
    ),
)
@click.option("--verify", is_flag=True, help="Read all finished segments again before.")
@chain_options
def repair(
    output: Output,
    *,
    place: str,
    options: tuple[str, ...],
    verify: bool,
    wire: WireOptions,
) -> int:
    """Look after all partitions once, now.

    Nodes do the same by themselves every few seconds: sealed blocks become segments, blocks with
    too few copies are copied, what was purged is deleted. But they wait half a minute for a node
    that vanished; here whoever neither answers nor says that it is there is gone. The exit code is
    1 if something failed.

    With --verify each node reads its segments first, as fast as it can. One that is rotten is set
    aside, told as an act that failed, and copied anew from another location.
    """
    import secrets

    from quiver.chain.membership import Members
    from quiver.chain.tending import Auditor
    from quiver.clock import SystemClock

    metadata = open_place(place, options, wire=wire)
    clock = SystemClock()
    members = Members(metadata, clock=clock, options=wire)
    members.look()
    gone = _gone(members, clock)
    auditor = Auditor(metadata, members, clock=clock, random=secrets.SystemRandom())
    acts: list[dict[str, Any]] = _verified(members, gone) if verify else []
    for partition, done in auditor.audit(gone_since=gone):
        acts += [
            {
                "partition": partition,
                "act": each.act,
                "number": None if each.number < 0 else each.number,
                "node": each.node,
                "fault": each.error.message if each.error else "",
            }
            for each in done
        ]
    failed = sum(bool(each["fault"]) for each in acts)
    if output.as_json:
        output.document({"gone": sorted(gone), "acts": acts, "failed_count": failed})
    else:
        _told(output, sorted(gone), acts)
    return FOUND if failed else OK


def _gone(members: Members, clock: Clock) -> dict[str, int]:
    """Ask all who say that they are there; those who are not, are gone for long enough."""
    from quiver.chain.placing import START_DELAY_NS
    from quiver.errors import QuiverError

    gone = {}
    up = refusals(members, [each.name for each in members.members() if each.state], clock)
    for member in members.members():
        try:
            is_there = member.name in up or (
                member.state is not None and bool(members(member.name).status())
            )
        except QuiverError:
            is_there = False
        if not is_there:
            gone[member.name] = clock.monotonic_ns() - START_DELAY_NS
    return gone


def _verified(members: Members, gone: Collection[str]) -> list[dict[str, Any]]:
    """Have all nodes read their segments, side by side; gives what was found."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        names = [each.name for each in members.members() if each.name not in gone]
        return [act for acts in pool.map(lambda name: _read(members, name), names) for act in acts]


def _read(members: Members, node: str) -> list[dict[str, Any]]:
    from quiver.errors import MissingError, QuiverError

    acts = []
    for each in members(node).status().holdings:
        fault = ""
        try:
            if each.finished is not None:
                members(node).verify(each.name)
        except MissingError:
            continue  # It was dropped meanwhile.
        except QuiverError as error:
            fault = error.message
        if each.finished is not None:
            place = {"partition": each.name.partition, "act": "verify", "number": each.name.number}
            acts.append({**place, "node": node, "fault": fault})
    return acts


def _told(output: Output, gone: list[str], acts: list[dict[str, Any]]) -> None:
    if gone:
        output.text(f"gone: {', '.join(gone)}")
    shown = [each for each in acts if each["act"] not in _OFTEN or each["fault"]]
    columns = ["partition", "act", "number", "node", "fault"]
    rows = [["" if each[name] is None else each[name] for name in columns] for each in shown]
    output.table("acts", columns, rows, empty="nothing was to be done")
    counts = Counter(each["act"] for each in acts if not each["fault"])
    if counts:
        output.text(", ".join(f"{act}: {number:,}" for act, number in sorted(counts.items())))
    if failed := sum(bool(each["fault"]) for each in acts):
        output.text(f"{count(failed, 'act')} failed; the next pass tries again")
