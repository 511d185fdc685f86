"""What is on a board of a chain, in words: all of it is printable when it leaves here."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final

from quiver.cli.live.chains.board import ChainBoard
from quiver.cli.live.chains.look import NodeSeen, PartitionSeen
from quiver.cli.live.words import (
    Columns,
    Sheet,
    bar,
    byte_cell,
    byte_rate_cell,
    clock_time,
    joined_head,
    number_cell,
    sheet_of,
)
from quiver.cli.output import count, printable
from quiver.units import format_bytes, format_duration

__all__ = [
    "event_sheet",
    "head_line",
    "node_sheet",
    "partition_sheet",
    "rate_words",
    "total_line",
    "want_sheet",
]

_BAR: Final = 10
_WRITER: Final = 8
"""So much of a name that nobody else has is enough to tell two apart."""


def head_line(board: ChainBoard, *, is_paused: bool, zone: tzinfo | None = None) -> str:
    """Say what is looked at, and what a look takes."""
    look = board.look
    parts = [printable(board.place)]
    if look is not None:
        parts.append(count(len(look.nodes), "node"))
        parts.append(count(len(look.partitions), "partition"))
    parts.append(f"every {format_duration(board.interval_ns)}")
    return joined_head(parts, look, is_paused=is_paused, zone=zone)


def rate_words(board: ChainBoard) -> str:
    """Say what is written."""
    if board.total is None:
        return "written: not known yet"
    return f"written {format_bytes(round(board.total))}/s"


def total_line(board: ChainBoard) -> str:
    """Say what there is, and what is wanted."""
    look = board.look
    if look is None:
        return ""
    blocks = sum(each.block_count for each in look.partitions)
    size = format_bytes(sum(each.byte_count for each in look.partitions))
    up = sum(each.is_well for each in look.nodes)
    opened = sum(each.open_number is not None for each in look.partitions)
    wanted = f"{count(look.want_count, 'block')} to copy" if look.want_count else "nothing to copy"
    return (
        f"{up} of {count(len(look.nodes), 'node')} serve · {count(blocks, 'sealed block')}, "
        f"{opened:,} open, {size} · {wanted}"
    )


def node_sheet(board: ChainBoard) -> Sheet:
    """Give a row for each node."""

    def fill(node: NodeSeen) -> tuple[float, str]:
        return node.fill, f"{bar(node.fill, _BAR)} {node.fill:4.0%}"

    columns: Columns = (
        ("node", False, lambda each: (each.name, each.name)),
        ("state", False, lambda each: (each.state, each.state)),
        ("full", False, fill),
        ("of", True, lambda each: byte_cell(each.total_bytes)),
        ("copies", True, lambda each: number_cell(each.copy_count if each.is_reached else None)),
        ("logs", True, lambda each: number_cell(each.log_count if each.is_reached else None)),
        ("head", True, lambda each: number_cell(each.head_count)),
        ("tail", True, lambda each: number_cell(each.tail_count)),
        ("duty", False, lambda each: (each.is_auditor, "auditor" if each.is_auditor else "")),
        ("host", False, lambda each: (each.host, each.host)),
        ("address", False, lambda each: (each.address, each.address)),
    )
    nodes = board.look.nodes if board.look is not None else ()
    return sheet_of(columns, [(each.name, each, not each.is_well) for each in nodes])


def partition_sheet(board: ChainBoard) -> Sheet:
    """Give a row for each partition."""

    def opened(each: PartitionSeen) -> tuple[int | None, str]:
        return number_cell(each.open_number)

    columns: Columns = (
        ("partition", False, lambda each: (each.name, each.name)),
        ("state", False, lambda each: (each.state, each.state or "unknown")),
        ("bytes/s", True, lambda each: byte_rate_cell(board.rates.get(each.name))),
        ("blocks", True, lambda each: number_cell(each.block_count)),
        ("size", True, lambda each: byte_cell(each.byte_count)),
        ("rf", True, lambda each: number_cell(each.rf)),
        ("wanted", True, lambda each: number_cell(each.wanted_count)),
        ("open", True, opened),
        ("so far", True, lambda each: byte_cell(each.open_bytes)),
        ("lag", True, lambda each: byte_cell(each.lag_bytes)),
        ("chain", False, lambda each: (each.chain, " > ".join(each.chain) or "-")),
        ("writer", False, lambda each: (each.writer, each.writer[:_WRITER] or "-")),
    )
    partitions = board.look.partitions if board.look is not None else ()
    return sheet_of(
        columns, [(each.name, each, bool(each.wanted_count or each.fault)) for each in partitions]
    )


def want_sheet(board: ChainBoard) -> Sheet:
    """Give a row for each copy that is made next, in order."""
    columns: Columns = (
        ("partition", False, lambda each: (each.partition, each.partition)),
        ("block", True, lambda each: number_cell(each.number)),
        ("why", False, lambda each: (each.want, each.want)),
        ("has", False, lambda each: (len(each.present), f"{len(each.present)} of {each.rf}")),
        ("on", False, lambda each: (each.present, ", ".join(each.present) or "-")),
    )
    wants = board.look.wants if board.look is not None else ()
    return sheet_of(columns, [(f"{each.partition} {each.number}", each, False) for each in wants])


def event_sheet(board: ChainBoard, zone: tzinfo | None = None) -> Sheet:
    """Give a row for each event."""

    def when(event: Any) -> tuple[int, str]:  # noqa: ANN401
        return event.at_ns, clock_time(event.at_ns, zone)

    columns: Columns = (
        ("time", False, when),
        ("of", False, lambda event: (event.about, event.about or "-")),
        ("what happened", False, lambda event: (event.text, event.text)),
    )
    return sheet_of(
        columns,
        [
            (f"{each.at_ns} {each.about} {each.text}", each, each.is_alarming)
            for each in board.events
        ],
    )
