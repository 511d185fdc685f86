"""The screen of ``quiver top``: a board that is drawn anew with each look."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from quiver.cli.live.board import Board
from quiver.cli.live.look import Look
from quiver.cli.live.watcher import Looks, Watcher
from quiver.cli.live.words import (
    Row,
    Sheet,
    bar,
    core_sheet,
    event_sheet,
    head_line,
    node_sheet,
    rate_words,
    spark,
    station_line,
    subscriber_sheet,
    used_words,
)
from quiver.cli.output import printable

__all__ = ["Failed", "HelpScreen", "Looked", "SheetTable", "TopScreen"]

_BAR: Final = 24
_FULL: Final = 0.9
"""From this share of the cap on it is drawn as an alarm."""
_SPARK_MIN: Final = 8
_PROBLEMS_MAX: Final = 3
"""So many are shown at the top; all of them are events."""
_FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)

_HELP: Final = """\
q       quit; Ctrl-C too
p       pause, and go on
s       sort the table that has the focus by its next column
tab     next table; arrows move in one, and on to the next
?       this, and away with it

in      bundles appended in a second, and their payloads; those of bundles
        that became a segment meanwhile are estimated from the others
log     files of the write-ahead log, holes not counted
open    bundles that are in no segment yet
writer  the process that has the lock, ? where the system does not tell
quar    what was set aside as damaged
done/s  bundles that the subscriber resolved; the rest is as in quiver lag

No lock is taken and nothing is changed. What happened is told from one
look to the next: what came and went in between may be told as one, or
not at all."""


class Looked(Message):
    """A look at the store was taken."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look


class Failed(Message):
    """Looking went wrong in a way that it must not."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class HelpScreen(ModalScreen[None]):
    """What the keys do and the words mean."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Static {
        width: auto; max-width: 100%; height: auto; max-height: 100%;
        padding: 0 1; border: round $primary; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("question_mark,escape,q,enter,space", "app.pop_screen", "Back")
    ]

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static(_HELP, markup=False)


class SheetTable(DataTable[Text]):
    """A table that shows sheets, one after the other, and keeps its cursor where it was."""

    def __init__(self, title: str, *, empty: str, id: str) -> None:  # noqa: A002
        super().__init__(cursor_type="row", cell_padding=0, id=id)
        self._title, self._empty = title, empty
        self._rows: tuple[Row, ...] = ()
        self._sort: int | None = None
        self.border_title = title

    def show(self, sheet: Sheet) -> None:
        """Show a sheet; only what differs from the last one is drawn."""
        if not self.columns:
            for index, title in enumerate(sheet.titles):
                self.add_column(_text(title, is_right=index in sheet.right))
        if self._sort is not None:
            sheet = sheet.sorted_by(self._sort)
        by = f" by {sheet.titles[self._sort]}" if self._sort is not None else ""
        self.border_title = f"{self._title}{by}" if sheet.rows else f"{self._title}: {self._empty}"
        before, self._rows = self._rows, sheet.rows
        if [row.name for row in before] == [row.name for row in sheet.rows]:
            self._update(before, sheet)
        else:
            self._replace(before, sheet)

    def sort_by_next(self, column_count: int) -> None:
        """Sort by the next column, and behind the last one not at all."""
        following = 0 if self._sort is None else self._sort + 1
        self._sort = following if following < column_count else None

    def action_cursor_up(self) -> None:
        """Go up a row, from the first one to the table above."""
        if self.cursor_row <= 0:
            self.screen.focus_previous()
        else:
            super().action_cursor_up()

    def action_cursor_down(self) -> None:
        """Go down a row, from the last one to the table below."""
        if self.cursor_row >= self.row_count - 1:
            self.screen.focus_next()
        else:
            super().action_cursor_down()

    def _update(self, before: Sequence[Row], sheet: Sheet) -> None:
        for line, (old, new) in enumerate(zip(before, sheet.rows, strict=True)):
            for index, (known, cell) in enumerate(zip(old.cells, new.cells, strict=True)):
                if known != cell or old.is_alarming != new.is_alarming:
                    text = _text(cell, is_right=index in sheet.right, row=new)
                    self.update_cell_at(Coordinate(line, index), text, update_width=True)

    def _replace(self, before: Sequence[Row], sheet: Sheet) -> None:
        """Fill the table anew; the cursor stays on its row, and at the top it stays at the top."""
        line = self.cursor_row
        name = before[line].name if 0 < line < len(before) else None
        self.clear()
        for row in sheet.rows:
            cells = enumerate(row.cells)
            self.add_row(*(_text(c, is_right=i in sheet.right, row=row) for i, c in cells))
        names = [row.name for row in sheet.rows]
        if name in names:
            self.move_cursor(row=names.index(name), animate=False)


def _text(cell: str, *, is_right: bool, row: Row | None = None) -> Text:
    """Make a cell, with a space in front that keeps it from the one before."""
    style = "bold red" if row is not None and row.is_alarming else ""
    return Text(f" {cell}", style, justify="right" if is_right else "left", no_wrap=True)


class TopScreen(App[None]):
    """The screen."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "quiver top"
    CSS = """
    #head { text-style: bold; height: 1; }
    #rate, #disk { height: 1; }
    #stations { height: auto; color: $text-muted; }
    #problem { height: auto; color: $text-error; text-style: bold; display: none; }
    SheetTable {
        border-top: solid $primary; border-title-color: $text-primary;
        border-title-style: bold; background: $background; scrollbar-size-vertical: 1;
    }
    SheetTable:focus { border-top: heavy $accent; }
    #nodes { height: auto; max-height: 40%; min-height: 3; display: none; }
    #cores { height: auto; max-height: 30%; min-height: 3; }
    #subscribers { height: auto; max-height: 40%; min-height: 3; }
    #events { height: 1fr; min-height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,ctrl+c", "quit", "Quit"),
        ("p", "pause", "Pause"),
        ("s", "sort", "Sort"),
        ("tab", "app.focus_next", "Next table"),
        ("question_mark", "help", "Help"),
    ]

    def __init__(
        self,
        board: Board,
        looker: Looks | None = None,
        *,
        zone: tzinfo | None = None,
    ) -> None:
        """Show a board; ``zone`` is that of the times, by default the machine's.

        ``looker`` looks in a thread of its own as long as the screen is there; without one, looks
        come as messages.
        """
        super().__init__()
        self.board = board
        self.failure: Exception | None = None
        """What went wrong while looking; it is for whoever ran this to raise."""
        self.drawn = ""
        """The picture that was asked for."""
        self.is_paused = False
        self.news = asyncio.Event()
        """Set with each look that is shown."""
        self._zone = zone
        self._ending: asyncio.AbstractEventLoop | None = None
        self._watcher: Watcher | None = None
        if looker is not None:
            self._watcher = Watcher(
                looker,
                interval_ns=board.interval_ns,
                tell=lambda look: self._tell(Looked(look)),
                fail=lambda error: self._tell(Failed(error)),
            )

    def compose(self) -> ComposeResult:
        """Lay out the lines at the top, the tables and the keys."""
        for name in ("head", "rate", "disk", "stations", "problem"):
            yield Static(id=name, markup=False)
        yield SheetTable("nodes", empty="none to see", id="nodes")
        yield SheetTable("cores", empty="none yet", id="cores")
        yield SheetTable("subscribers", empty="nobody has subscribed", id="subscribers")
        yield SheetTable("events", empty="nothing happened yet", id="events")
        yield Footer()

    def on_mount(self) -> None:
        """Draw what is known, which is nothing yet."""
        self._ending = asyncio.get_running_loop()
        self._draw()
        self.query_one("#subscribers").focus()
        if self._watcher is not None:
            self._watcher.start()

    def on_unmount(self) -> None:
        """Look no more."""
        if self._watcher is not None:
            self._watcher.stop()

    def on_resize(self) -> None:
        """Draw the lines as wide as the terminal is now."""
        self._draw_lines()

    def on_looked(self, message: Looked) -> None:
        """Show a look."""
        try:
            self.board.take(message.look)
            self._draw()
        except Exception as error:  # noqa: BLE001 It is raised where the screen ends.
            self._fail(error)
        self.news.set()

    def on_failed(self, message: Failed) -> None:
        """End with the error."""
        self._fail(message.error)

    def end(self) -> None:
        """End the screen; called by a signal."""
        if self._ending is not None:
            self._ending.call_soon_threadsafe(self.exit)

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.is_paused = not self.is_paused
        if self._watcher is not None:
            self._watcher.pause(paused=self.is_paused)
        self._draw_lines()

    def action_sort(self) -> None:
        """Sort the table that has the focus by its next column."""
        table = self.focused
        if isinstance(table, SheetTable) and table.id != "events":
            table.sort_by_next(len(table.columns))
            self._draw_tables()

    def action_help(self) -> None:
        """Say what the keys do."""
        self.push_screen(HelpScreen())

    def picture(self) -> str:
        """Draw what is shown as an SVG, which asks for no font from elsewhere."""
        return _FONTS.sub("", self.export_screenshot(title=self.TITLE))

    async def draw_after(self, look_count: int) -> None:
        """Draw a picture once so many looks were shown, and end."""
        while self.board.look_count < look_count and not self._is_broken:
            self.news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), 1)
        if not self._is_broken:
            self.drawn = self.picture()
            self.exit()

    @property
    def _is_broken(self) -> bool:
        return self.failure is not None or bool(self.return_code)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self.news.set()
        self.exit()

    def _tell(self, message: Message) -> None:
        """Post a message from another thread."""
        with suppress(RuntimeError):  # The screen has ended, and its loop with it.
            self.post_message(message)

    def wait_for_looker(self, timeout: float) -> None:
        """Wait until nobody looks any more, but not longer than ``timeout`` seconds."""
        if self._watcher is not None:
            self._watcher.join(timeout)

    def _draw(self) -> None:
        self._draw_lines()
        self._draw_tables()

    def _draw_lines(self) -> None:
        board, width = self.board, self.size.width
        self._write("head", Text(head_line(board, is_paused=self.is_paused, zone=self._zone)))
        self._write("rate", _rate_line(board, width))
        words, share = used_words(board)
        line = Text(words)
        if share is not None:
            style = "bold red" if share >= _FULL else "green"
            line.append("  ").append(bar(share, _BAR), style)
        self._write("disk", line)
        self._write("stations", Text(station_line(board.look) if board.look is not None else ""))
        problems = [] if board.problem is None else [board.problem]
        if board.look is not None:
            problems += [text for _, text in board.look.faults]
        self._write("problem", Text("\n".join(map(printable, problems[:_PROBLEMS_MAX]))))
        self.query_one("#problem").display = bool(problems)

    def _draw_tables(self) -> None:
        board = self.board
        nodes = node_sheet(board)
        table = self.query_one("#nodes", SheetTable)
        table.display = nodes is not None
        if nodes is not None:
            table.show(nodes)
        for name, sheet in (
            ("cores", core_sheet(board)),
            ("subscribers", subscriber_sheet(board)),
            ("events", event_sheet(board.events, self._zone)),
        ):
            self.query_one(f"#{name}", SheetTable).show(sheet)

    def _write(self, name: str, text: Text) -> None:
        self.query_one(f"#{name}", Static).update(text)


def _rate_line(board: Board, width: int) -> Text:
    """Say what comes in, and draw what came in before as far as there is room."""
    words = rate_words(board)
    line = Text(f"{words}  ")
    values = board.history.bundles(width - len(line))
    if values and width - len(line) >= _SPARK_MIN:
        line.append(spark(values), "cyan")
    return line
