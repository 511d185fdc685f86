"""What is seen: one line with a progress bar for each step, remarks above it, tables at the end.

On a terminal the bars move; elsewhere each line is printed once, when its step is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from bench.demo.compare import Difference
from bench.demo.report import Report

__all__ = ["Screen", "Step"]

_WIDTH_ELSEWHERE = 110


class Step:
    """One step that is under way."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: int = 1) -> None:
        """Move on."""
        self._progress.advance(self._task, count)

    def reach(self, count: int) -> None:
        """Move to a place."""
        self._progress.update(self._task, completed=count)

    def result(self, text: str) -> None:
        """Say at the end of the line what came out."""
        self._progress.update(self._task, result=text)

    def remark(self, text: str) -> None:
        """Print a line, which may have markup, above the bar."""
        self._progress.console.print(text)


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_WIDTH_ELSEWHERE)
        self.console = console

    def say(self, text: str = "", *, style: str = "") -> None:
        """Print a line."""
        self.console.print(Text(text, style=style))

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Step]:
        """Show a step while the block runs."""
        with Progress(
            TextColumn("{task.description:<21}"),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:>5,.0f} / {task.total:<5,.0f}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[result]}", style="green"),
            console=self.console,
        ) as progress:
            yield Step(progress, progress.add_task(title, total=total, result=""))

    def show(self, report: Report, *, seconds: float) -> None:
        """Print the tables, and what is wrong if something is."""
        self.say()
        self.console.print(_rows_table(report))
        self.console.print(_figures_table(report, seconds))
        problems = report.problems()
        for problem in problems:
            self.say(f"WRONG: {problem}", style="bold red")
        if not problems:
            self.say(
                "Every row arrived at both subscribers, once, with every value as in the source.",
                style="bold green",
            )


def _rows_table(report: Report) -> Table:
    table = Table(title="Rows, source against what was delivered", title_justify="left")
    table.add_column("slot")
    table.add_column("rows in", justify="right")
    for name in report.differences:
        table.add_column(f"out: {name}", justify="right")
    for heading in ("differ", "duplicates", "lost"):
        table.add_column(heading, justify="right")
    names = next(iter(report.differences.values()), {})
    for slot in names:
        found = [by_slot[slot] for by_slot in report.differences.values()]
        table.add_row(slot, *_cells(found), end_section=slot == list(names)[-1])
    sums = [_sum(list(by_slot.values())) for by_slot in report.differences.values()]
    if sums:
        table.add_row("all", *_cells(sums), style="bold")
    return table


def _cells(found: list[Difference]) -> list[str]:
    sides = [difference.rows_out for difference in found]
    wrong = [
        sum(getattr(difference, what) for difference in found)
        for what in ("foreign", "duplicates", "lost")
    ]
    return [f"{number:,}" for number in (found[0].rows_in, *sides, *wrong)]


def _sum(found: list[Difference]) -> Difference:
    names = ("rows_in", "rows_out", "lost", "duplicates", "foreign")
    return Difference(*(sum(getattr(each, name) for each in found) for name in names))


def _figures_table(report: Report, seconds: float) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    where = ", ".join(
        f"{report.kills_in(act)} {text}"
        for act, text in (
            ("append", "inside an append"),
            ("finalize", "in a finalize"),
            ("opening", "in a recovery"),
            ("", "between two acts"),
        )
        if report.kills_in(act)
    )
    delivered = report.delivered.values()
    twice = sum(each.repeated for each in delivered)
    rows: list[tuple[str, str, str]] = [
        ("kills survived", f"{report.kills}", where),
        ("bundles appended", f"{report.bundles:,}", "each synced before it was acknowledged"),
        ("bundles replayed", f"{report.replayed:,}", "brought back from the log by recoveries"),
        (
            "never acknowledged",
            f"{report.unconfirmed:,}",
            "durable all the same, so not sent again",
        ),
        ("duplicates", f"{twice + report.total('duplicates'):,}", "bundles and rows"),
        ("lost", f"{_missing(report) + report.total('lost'):,}", "bundles and rows"),
        (
            "segments",
            f"{report.segments_written:,}",
            f"{report.segments_after_one} with one ack, {report.segments_left} with both",
        ),
        (
            "bytes left",
            f"{report.segment_bytes_left:,}",
            f"in segments; {report.store_bytes_left:,} in the log and the acks",
        ),
        ("time", f"{seconds:.0f} s", ""),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _missing(report: Report) -> int:
    return sum(report.bundles - len(each.bundles) for each in report.delivered.values())
