"""What is on a board, in words: lines and tables of text, for a screen or for a pipe.

Names and reasons come from a disk that others write to: all of it is printable when it leaves here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Protocol

from quiver.cli.live.board import Board
from quiver.cli.live.events import Event
from quiver.cli.live.look import CoreLook, Look, Writer
from quiver.cli.live.rates import Rate
from quiver.cli.output import count, printable
from quiver.units import SECOND, format_bytes, format_duration

__all__ = [
    "Columns",
    "Row",
    "Sheet",
    "bar",
    "byte_cell",
    "byte_rate_cell",
    "clock_time",
    "core_sheet",
    "event_sheet",
    "head_line",
    "joined_head",
    "look_time",
    "node_sheet",
    "number_cell",
    "rate_words",
    "sheet_of",
    "spark",
    "station_line",
    "subscriber_sheet",
    "used_words",
]

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_WHOLE: Final = 10
"""Rates from here on are written without a fraction."""
_NOTHING: Final = "-"


class Timed(Protocol):
    """A look, at whatever it was."""

    @property
    def at_ns(self) -> int:
        """Wall time."""

    @property
    def took_ns(self) -> int:
        """What looking took."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is about, what to sort it by, and its cells as text."""

    name: str
    keys: tuple[Any, ...]
    cells: tuple[str, ...]
    is_alarming: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: titles, which of its columns stand to the right, and rows."""

    titles: tuple[str, ...]
    right: frozenset[int]
    rows: tuple[Row, ...]

    def sorted_by(self, column: int) -> Sheet:
        """Sort the rows by a column: numbers from the largest, names from the first."""
        down = column in self.right
        known = [row for row in self.rows if row.keys[column] is not None]
        unknown = [row for row in self.rows if row.keys[column] is None]
        known.sort(key=lambda row: row.keys[column], reverse=down)
        return Sheet(self.titles, self.right, (*known, *unknown))


Columns = Sequence[tuple[str, bool, Callable[[Any], tuple[Any, str]]]]


def sheet_of(columns: Columns, rows: Iterable[tuple[str, Any, bool]]) -> Sheet:
    """Make a table of things, each with its name and whether it is alarming."""
    made = []
    for name, thing, is_alarming in rows:
        cells = [write(thing) for _, _, write in columns]
        texts = tuple(printable(text) for _, text in cells)
        made.append(Row(name, tuple(key for key, _ in cells), texts, is_alarming))
    right = frozenset(index for index, (_, is_right, _) in enumerate(columns) if is_right)
    return Sheet(tuple(title for title, _, _ in columns), right, tuple(made))


def number_cell(value: int | None) -> tuple[int | None, str]:
    """Write a count."""
    return value, _NOTHING if value is None else f"{value:,}"


def byte_cell(value: int | None) -> tuple[int | None, str]:
    """Write a size."""
    return value, _NOTHING if value is None else format_bytes(value)


def _rate(value: float | None) -> tuple[float | None, str]:
    if value is None:
        return None, _NOTHING
    return value, f"{value:,.0f}" if value >= _WHOLE or value == 0 else f"{value:.1f}"


def byte_rate_cell(value: float | None) -> tuple[float | None, str]:
    """Write bytes in a second."""
    return value, _NOTHING if value is None else format_bytes(round(value))


def _age(value: int | None) -> tuple[int | None, str]:
    if value is None:
        return None, _NOTHING
    return value, format_duration(value) if value >= SECOND else "now"


def _writer(writer: Writer) -> tuple[int, str]:
    if writer.is_there is None:
        return 0, "?"
    return writer.pid or 0, str(writer.pid) if writer.is_there else "none"


def core_sheet(board: Board) -> Sheet:
    """Give a row for each core."""

    def rate(core: CoreLook) -> Rate | None:
        return None if board.rates is None else board.rates.cores.get(core.core)

    columns: Columns = (
        ("core", False, lambda core: (core.core, str(core.core))),
        ("writer", False, lambda core: _writer(core.writer)),
        ("in/s", True, lambda core: _rate(r.bundles if (r := rate(core)) else None)),
        ("bytes/s", True, lambda core: byte_rate_cell(r.bytes if (r := rate(core)) else None)),
        ("log", True, lambda core: byte_cell(core.wal_bytes)),
        ("open", True, lambda core: number_cell(core.open_bundle_count)),
        ("segs", True, lambda core: number_cell(len(core.segments))),
        ("size", True, lambda core: byte_cell(core.segment_bytes)),
        ("acks", True, lambda core: byte_cell(core.acks_bytes)),
        ("quar", True, lambda core: byte_cell(core.quarantine_bytes)),
        ("used", True, lambda core: byte_cell(core.used_bytes)),
    )
    cores = board.look.cores if board.look is not None else ()
    return sheet_of(
        columns,
        [(str(core.core), core, bool(core.problem or core.quarantine_bytes)) for core in cores],
    )


def subscriber_sheet(board: Board) -> Sheet:
    """Give a row for each subscriber, its cores together."""
    done = board.rates.done if board.rates is not None else {}
    columns: Columns = (
        ("subscriber", False, lambda each: (each.name, each.name)),
        ("bundles", True, lambda each: number_cell(each.bundle_count)),
        ("size", True, lambda each: byte_cell(each.byte_count)),
        ("oldest", True, lambda each: _age(each.oldest_age_ns)),
        ("done/s", True, lambda each: _rate(done.get(each.name))),
        ("retrying", True, lambda each: number_cell(each.retrying_count)),
        ("dead", True, lambda each: number_cell(each.dead_letter_count)),
        ("state", False, lambda each: (each.is_paused, "paused" if each.is_paused else "")),
    )
    subscribers = board.look.subscribers if board.look is not None else ()
    return sheet_of(
        columns,
        [(each.name, each, bool(each.retrying_count or each.is_paused)) for each in subscribers],
    )


def node_sheet(board: Board) -> Sheet | None:
    """Give a row for each node of a pipeline; None if no pipeline is looked at."""
    if board.look is None or board.look.nodes is None:
        return None
    rates = board.rates.items if board.rates is not None else {}
    columns: Columns = (
        ("node", False, lambda each: (each.name, each.name)),
        ("kind", False, lambda each: (each.role, f"{each.plugin} {each.role}")),
        ("items/s", True, lambda each: _rate(rates.get(each.name))),
        ("items", True, lambda each: number_cell(each.items)),
        ("refused", True, lambda each: number_cell(each.refused)),
        ("retried", True, lambda each: number_cell(each.retried)),
        ("in hand", True, lambda each: number_cell(each.waiting)),
        ("state", False, lambda each: (each.state, each.state)),
    )
    nodes = [each for each in board.look.nodes.nodes if each.plugin != "persistence"]
    return sheet_of(columns, [(each.name, each, bool(each.state)) for each in nodes])


def event_sheet(events: Iterable[Event], zone: tzinfo | None = None) -> Sheet:
    """Give a row for each event; times are those of the clock on the wall, or of ``zone``."""
    columns: Columns = (
        ("time", False, lambda event: (event.at_ns, clock_time(event.at_ns, zone))),
        (
            "core",
            False,
            lambda event: (event.core, _NOTHING if event.core is None else str(event.core)),
        ),
        ("what happened", False, lambda event: (event.kind, event.text)),
    )
    rows = (
        (f"{event.at_ns} {event.core} {event.text}", event, event.kind in ("damage", "store"))
        for event in events
    )
    return sheet_of(columns, rows)


def clock_time(at_ns: int, zone: tzinfo | None = None) -> str:
    """Write the time of day of a wall time."""
    return f"{datetime.fromtimestamp(at_ns // SECOND, UTC).astimezone(zone):%H:%M:%S}"


def head_line(board: Board, *, is_paused: bool, zone: tzinfo | None = None) -> str:
    """Say what is looked at, and what a look takes."""
    look = board.look
    parts = [printable(board.folder)]
    if look is not None:
        parts.append(count(len(look.cores), "core"))
    parts.append(f"every {format_duration(board.interval_ns)}")
    return joined_head(parts, look, is_paused=is_paused, zone=zone)


def joined_head(
    parts: list[str], look: Timed | None, *, is_paused: bool, zone: tzinfo | None
) -> str:
    """Say behind the rest when the last look was, and what it took."""
    if look is not None:
        parts += [f"a look takes {look_time(look.took_ns)}", clock_time(look.at_ns, zone)]
    return " · ".join([*parts, "PAUSED"] if is_paused else parts)


def rate_words(board: Board) -> str:
    """Say what comes in."""
    if board.rates is None:
        return "in: not known yet"
    total = board.rates.total
    bundles = _rate(total.bundles)[1]
    return f"in {bundles} bundles/s  {format_bytes(round(total.bytes))}/s"


def used_words(board: Board) -> tuple[str, float | None]:
    """Say what is used of the cap, and which share that is; None if no cap is known."""
    used = staged = 0
    if board.look is not None:
        staged = board.look.staged_bytes  # It counts for the cap as well.
        used = board.look.used_bytes + staged
    of_it = f", {format_bytes(staged)} of it staged" if staged else ""
    if not board.cap:
        return f"disk {format_bytes(used)}, no cap known{of_it}", None
    share = used / board.cap
    return f"disk {format_bytes(used)} of {format_bytes(board.cap)}, {share:.0%}{of_it}", share


def station_line(look: Look) -> str:
    """Say what each station has, all cores together."""
    cores = look.cores
    log = f"log {format_bytes(sum(core.wal_bytes for core in cores))}"
    log += f" in {count(sum(core.wal_file_count for core in cores), 'file')}"
    open_count = sum(core.open_bundle_count for core in cores)
    segments = count(sum(len(core.segments) for core in cores), "segment")
    parts = [
        f"{log}, {open_count:,} open",
        f"{segments} {format_bytes(sum(core.segment_bytes for core in cores))}",
        f"acks {format_bytes(sum(core.acks_bytes for core in cores))}",
        f"quarantine {format_bytes(sum(core.quarantine_bytes for core in cores))}",
        count(sum(core.dead_letter_count for core in cores), "dead letter"),
    ]
    return " · ".join(parts)


def spark(values: Sequence[float]) -> str:
    """Draw numbers as a line of blocks, one each; the largest is as high as it goes."""
    top = max(values, default=0.0)
    if top <= 0:
        return _BLOCKS[0] * len(values)
    last = len(_BLOCKS) - 1
    return "".join(_BLOCKS[min(last, max(0, round(value / top * last)))] for value in values)


def bar(share: float, width: int) -> str:
    """Draw a share of 1 as a bar; more than 1 is full."""
    filled = min(width, max(0, round(share * width)))
    return "█" * filled + "░" * (width - filled)


def look_time(nanoseconds: int) -> str:
    """Write a time in tenths of a millisecond, and in whole ones from ten on."""
    step = 100_000 if nanoseconds < _WHOLE * 1_000_000 else 1_000_000
    return format_duration(round(nanoseconds / step) * step)
