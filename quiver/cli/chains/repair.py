"""``quiver chain repair``: one pass over all partitions now, and what it did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from quiver.cli.chains.desk import chain_options, open_place
from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output, count
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.membership import Members
    from quiver.chain.wire import WireOptions

__all__ = ["repair"]


@verb(
    "repair",
    examples=(
        ("quiver chain repair --metadata /mnt/meta", "after a machine is lost, without a wait"),
        ("quiver chain repair --metadata /mnt/meta --json | jq '.acts[]'", "what was done"),
    ),
)
@chain_options
def repair(
    output: Output,
    *,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> int:
    """Look after all partitions once, now.

    Nodes do the same by themselves every few seconds: sealed blocks become segments, blocks with
    too few copies are copied, what was purged is deleted. But they wait half a minute for a node
    that vanished; here whoever does not answer is gone. The exit code is 1 if something failed.
    """
    import secrets

    from quiver.chain.membership import Members
    from quiver.chain.tending import Auditor
    from quiver.clock import SystemClock

    metadata = open_place(place, options)
    clock = SystemClock()
    members = Members(metadata, clock=clock, options=wire)
    members.look()
    gone = _gone(members, clock.monotonic_ns())
    auditor = Auditor(metadata, members, clock=clock, random=secrets.SystemRandom())
    acts: list[dict[str, Any]] = []
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


def _gone(members: Members, now_ns: int) -> dict[str, int]:
    """Ask all who say that they are there; those who are not, are gone for long enough."""
    from quiver.chain.placing import START_DELAY_NS
    from quiver.errors import QuiverError

    gone = {}
    for member in members.members():
        try:
            is_there = member.state is not None and bool(members(member.name).status())
        except QuiverError:
            is_there = False
        if not is_there:
            gone[member.name] = now_ns - START_DELAY_NS
    return gone


def _told(output: Output, gone: list[str], acts: list[dict[str, Any]]) -> None:
    if gone:
        output.text(f"gone: {', '.join(gone)}")
    shown = [each for each in acts if each["act"] != "settle" or each["fault"]]
    columns = ["partition", "act", "number", "node", "fault"]
    rows = [["" if each[name] is None else each[name] for name in columns] for each in shown]
    output.table("acts", columns, rows, empty="nothing was to be done")
    counts = Counter(each["act"] for each in acts if not each["fault"])
    if counts:
        output.text(", ".join(f"{act}: {number:,}" for act, number in sorted(counts.items())))
    if failed := sum(bool(each["fault"]) for each in acts):
        output.text(f"{count(failed, 'act')} failed; the next pass tries again")
