"""How the command line speaks: results on stdout, talk on stderr, and no verb formats by itself.

Text that comes from files or their names is made printable first, so that nothing on a disk can
steer a terminal.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.units import SECOND, format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from quiver.config_file import LoadedConfig

__all__ = ["Output", "brief_time", "count", "format_time", "plain", "printable", "size"]

EXACT_MAX: Final = 1 << 53
"""Whole numbers beyond this are written to JSON as strings: many readers make floats of them."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PIPE_WIDTH: Final = 10_000
_GAP: Final = 2
_TIME: Final = re.compile(r"(.+\.[0-9]{3})[0-9]{6}Z")


class Output:
    """One run's stdout and stderr, and the options that say how to use them.

    Those of a store that verbs have in common are kept here as well, for who opens one.
    """

    def __init__(self) -> None:
        self.as_json = False
        self.is_quiet = False
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.with_traceback = False
        self.config_file: str | None = None
        self.overrides: dict[str, str] = {}
        self.config: LoadedConfig | None = None
        self._bar: Progress | None = None

    def document(self, fields: Mapping[str, Any]) -> None:
        """Write a result as one JSON document."""
        self._write(json.dumps(plain(fields), indent=2))

    def line(self, fields: Mapping[str, Any]) -> None:
        """Write one item of a result as one line of JSON."""
        self._write(json.dumps(plain(fields), separators=(", ", ": ")))

    def text(self, line: str, *, style: str = "") -> None:
        """Write one line of a result; ``style`` is a colour, for a terminal."""
        self.lines(printable(line), style=style)

    def lines(self, text: str, *, style: str = "") -> None:
        """Write lines that the caller made printable."""
        self._write(click.style(text, fg=style) if style and self._colors(sys.stdout) else text)

    def facts(self, rows: Iterable[tuple[str, str]]) -> None:
        """Write names and what is to be said of each, one line each."""
        grid = _grid(header=False)
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(_cell(name), _cell(value))
        self._render(grid)

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        empty: str,
        right: Collection[int] = (),
    ) -> None:
        """Write a table under a title; columns whose values are numbers stand to the right.

        So do those whose places are in ``right``, whatever their values are.
        On a terminal that is too narrow for it each row becomes lines of a name and a value.
        """
        values = [list(row) for row in rows]
        if not values:
            self.text(f"{title}: {empty}")
            return
        if sys.stdout.isatty() and _table_width(columns, values) > get_terminal_size().columns:
            self.text(title, style="cyan")
            for place, row in enumerate(values):
                if place:
                    self.text("")
                self.facts((f"  {c}", _shown(v)) for c, v in zip(columns, row, strict=True))
            return
        grid = _grid(header=True)
        for index, column in enumerate(columns):
            numbers = all(isinstance(row[index], int | _Size | None) for row in values)
            side: Any = "right" if numbers or index in right else "left"
            grid.add_column(_cell(column), justify=side, overflow="fold")
        for row in values:
            grid.add_row(*(_cell(_shown(value)) for value in row))
        self.text(title, style="cyan")
        self._render(grid)

    def say(self, text: str) -> None:
        """Tell the person at the terminal something that is no result."""
        if not self.is_quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Tell something that even ``--quiet`` must not hide."""
        with self._without_bar():
            click.echo(printable(text), err=True)

    def fail(self, message: str, *, hint: str = "") -> None:
        """Say why the verb cannot go on, and what may help."""
        name = click.style("quiver:", fg="red") if self._colors(sys.stderr) else "quiver:"
        text = "\n".join(printable(line) for line in message.splitlines())
        with self._without_bar():
            click.echo(f"{name} {text}", err=True)
            if hint:
                click.echo(f"hint: {printable(hint)}", err=True)

    def flush(self) -> None:
        """Hand everything written so far to whoever reads it."""
        sys.stdout.flush()

    @property
    def has_bars(self) -> bool:
        """Whether a person can see how far something is."""
        return not (self.is_quiet or self.as_json) and sys.stderr.isatty()

    @contextmanager
    def progress(
        self, label: str, total: int | None, *, unit: str, rate: bool = False
    ) -> Iterator[Callable[[int], None]]:
        """Show a bar on stderr for the length of a block, if a person can see it.

        Gives a function to call with each piece of work done; ``unit`` is ``B`` or a plural noun.
        ``rate``: of bytes also how many a second.
        """
        if not self.has_bars:
            yield lambda _: None
            return
        bar = _bar(unit, no_color=self.no_color, rate=rate)
        task = bar.add_task(label, total=total)
        self._bar = bar
        bar.start()
        try:
            yield lambda done: bar.advance(task, done)
        finally:
            self._bar = None
            bar.stop()

    @contextmanager
    def meter(self, label: str, *, rate: bool = False) -> Iterator[Callable[[int, int], None]]:
        """Show a bar as in ``progress`` for bytes whose total is known only later.

        Gives a function to call with bytes done so far and of all; the first call shows the bar.
        """
        with ExitStack() as stack:
            advance: Callable[[int], None] | None = None
            shown = 0

            def show(done: int, total: int) -> None:
                nonlocal advance, shown
                if advance is None:
                    bar = self.progress(label, total, unit="B", rate=rate)
                    advance = stack.enter_context(bar)
                advance(done - shown)
                shown = done

            yield show

    def _write(self, text: str) -> None:
        with self._without_bar():
            sys.stdout.write(f"{text}\n")

    @contextmanager
    def _without_bar(self) -> Iterator[None]:
        """Take the bar off the screen while something else is written to it."""
        bar = self._bar
        if bar is None:
            yield
            return
        bar.stop()
        try:
            yield
            sys.stdout.flush()
        finally:
            bar.start()

    def _colors(self, stream: Any) -> bool:  # noqa: ANN401
        return not self.no_color and stream.isatty()

    def _render(self, grid: Table) -> None:
        from rich.console import Console

        width = None if sys.stdout.isatty() else _PIPE_WIDTH
        console = Console(no_color=self.no_color, highlight=False, width=width, emoji=False)
        # It flushes what was written before, and would end the program with a code of its own.
        console.on_broken_pipe = _hung_up  # type: ignore[method-assign]
        with console.capture() as capture:
            console.print(grid)
        for line in capture.get().splitlines():
            self._write(line.rstrip())


def _hung_up() -> None:
    raise BrokenPipeError


def _table_width(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    from rich.cells import cell_len

    lines = [columns, *([_shown(value) for value in row] for row in rows)]
    widths = [
        max(cell_len(printable(cell)) for cell in column) for column in zip(*lines, strict=True)
    ]
    return sum(widths) + _GAP * (len(widths) - 1)


def _grid(*, header: bool) -> Table:
    from rich.table import Table

    return Table(box=None, show_header=header, pad_edge=False, padding=(0, _GAP, 0, 0))


def _cell(value: str) -> Text:
    from rich.text import Text

    return Text(printable(value))


def _bar(unit: str, *, no_color: bool, rate: bool) -> Progress:
    from rich import progress
    from rich.console import Console

    done: progress.ProgressColumn = (
        progress.DownloadColumn() if unit == "B" else progress.MofNCompleteColumn()
    )
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=32),
        done,
        *([] if unit == "B" else [progress.TextColumn(unit)]),
        *([progress.TransferSpeedColumn()] if rate else []),
        progress.TimeElapsedColumn(),
        console=Console(stderr=True, no_color=no_color),
        transient=True,
    )


class _Size(int):
    """A number of bytes, shown to people with a unit."""


def size(value: int | None) -> int | None:
    """Mark a number of bytes, for a cell of a table."""
    return None if value is None else _Size(value)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, _Size):
        return format_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_time(nanoseconds: int | None) -> str | None:
    """Write wall time as RFC 3339 in UTC with nine digits of the second; None stays None."""
    if nanoseconds is None:
        return None
    seconds, rest = divmod(nanoseconds, SECOND)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{nanoseconds} ns since 1970"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def brief_time(text: str | None) -> str | None:
    """Cut what ``format_time`` wrote to milliseconds, for people."""
    match = None if text is None else _TIME.fullmatch(text)
    return text if match is None else f"{match[1]}Z"


def plain(value: Any) -> Any:  # noqa: ANN401
    """Turn a value into what JSON holds without loss: long integers and bytes become strings."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -EXACT_MAX <= value <= EXACT_MAX else str(value)
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    return value if isinstance(value, float) else str(value)


def printable(text: str) -> str:
    """Write control characters and halves of characters as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
