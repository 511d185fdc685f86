"""``quiver chain balance``: move blocks from fuller nodes to emptier ones, or say which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.chains.desk import chain_options, open_place, raise_told
from quiver.cli.exits import FOUND, OK
from quiver.cli.output import Output, count, size
from quiver.cli.program import verb
from quiver.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quiver.chain.membership import Members
    from quiver.chain.placing import Move
    from quiver.chain.tending import Balancer
    from quiver.chain.wire import WireOptions

__all__ = ["balance"]

_PLANNED_MAX: Final = 10_000


@verb(
    "balance",
    examples=(
        ("quiver chain balance --dry-run --metadata /mnt/meta", "what would move, and where"),
        ("quiver chain balance --metadata /mnt/meta", "behind nodes that joined empty"),
    ),
)
@click.option("--dry-run", is_flag=True, help="Move nothing; say what would move.")
@click.option(
    "--timeout",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Begin nothing more then.",
)
@chain_options
def balance(
    output: Output,
    *,
    dry_run: bool,
    timeout: str,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> int:
    """Move blocks from fuller nodes to emptier ones now, until they are as full as each other.

    Nodes begin by themselves once two of them are 20 percent of a disk apart, behind all copies
    that are wanted; here they are brought as near as 5 percent at once. A block is copied and
    checked before it is listed elsewhere, so there are never fewer copies; what it leaves is
    deleted half a minute later. The exit code is 1 if something failed, 9 if a record is damaged,
    and 5 if it is of a newer Quiver: blocks of that partition stay where they are.
    """
    from quiver.chain.membership import Members
    from quiver.chain.tending import MOVES_MAX, Balancer
    from quiver.clock import SystemClock

    clock = SystemClock()
    until_ns = clock.monotonic_ns() + parse_duration(timeout, key="--timeout")
    metadata = open_place(place, options, wire=wire)
    members = Members(metadata, clock=clock, options=wire)
    members.look()
    moves_max = _PLANNED_MAX if dry_run else MOVES_MAX
    balancer = Balancer(metadata, members, clock=clock, moves_max=moves_max)
    rows: list[dict[str, Any]] = []
    if dry_run:
        rows = [_row(move) for move in balancer.plan(is_moving=True)]
    else:
        for row in _moved(balancer, members):
            rows.append(row)
            if clock.monotonic_ns() >= until_ns:
                break
    failed = sum(bool(row["fault"]) for row in rows)
    nodes = _fills(balancer)
    if output.as_json:
        output.document(
            {"is_dry_run": dry_run, "nodes": nodes, "moves": rows, "failed_count": failed}
        )
    else:
        _told(output, nodes, rows, is_dry_run=dry_run)
    raise_told(output, list(balancer.faults.values()))
    return FOUND if failed else OK


def _moved(balancer: Balancer, members: Members) -> Iterator[dict[str, Any]]:
    """Move until nothing fits, or nothing goes."""
    while moves := balancer.plan(is_moving=True):
        is_stuck = True
        for move in moves:
            done = balancer.move(move)
            fault = next((each.error.message for each in done if each.error), "")
            is_moved = any(each.act == "move" and each.error is None for each in done)
            is_stuck = is_stuck and not is_moved
            if done:
                yield _row(move, "" if is_moved else fault)
        if is_stuck:
            return
        members.look()


def _row(move: Move, fault: str = "") -> dict[str, Any]:
    return {
        "partition": move.partition,
        "number": move.number,
        "source": move.source,
        "target": move.target,
        "bytes": move.size,
        "fault": fault,
    }


def _fills(balancer: Balancer) -> list[dict[str, Any]]:
    """Say how full nodes are, without what is about to be deleted."""
    return [
        {
            "name": node.name,
            "total_bytes": node.total_bytes,
            "used_bytes": node.total_bytes - node.free_bytes,
        }
        for node in balancer.rooms()
    ]


def _told(
    output: Output,
    nodes: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    *,
    is_dry_run: bool,
) -> None:
    columns = ["partition", "number", "source", "target", "bytes", "fault"]
    values = [
        [size(row[name]) if name == "bytes" else row[name] for name in columns] for row in rows
    ]
    title = "would move" if is_dry_run else "moved"
    output.table(title, columns, values, empty="nothing: nodes are as full as each other")
    filled = [
        [
            each["name"],
            size(each["used_bytes"]),
            size(each["total_bytes"]),
            f"{each['used_bytes'] / max(each['total_bytes'], 1):.0%}",
        ]
        for each in nodes
    ]
    output.table("nodes", ["name", "used", "of", "full"], filled, empty="none serves")
    if failed := sum(bool(row["fault"]) for row in rows):
        output.text(f"{count(failed, 'move')} failed; nodes try again later")
