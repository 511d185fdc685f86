"""What every screen of ``quiver`` has: tables that are drawn anew with each look, keys, an end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import Any, ClassVar, Final, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from quiver.cli.live.watcher import Looks, Watcher
from quiver.cli.live.words import Row, Sheet
from quiver.cli.output import printable

__all__ = ["FRAME_CSS", "Failed", "HelpScreen", "LiveScreen", "Looked", "SheetTable", "Shown"]

_PROBLEMS_MAX: Final = 3
_LAST_KEY: Final = "Quit"
_DRAWN_SECONDS: Final = 0.05
_DRAWN_TRIES: Final = 100
"""So many are shown at the top; all of them are events."""
_FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)

FRAME_CSS: Final = """\
#head { text-style: bold; height: 1; }
#problem { height: auto; color: $text-error; text-style: bold; display: none; }
SheetTable {
    border-top: solid $primary; border-title-color: $text-primary;
    border-title-style: bold; background: $background; scrollbar-size-vertical: 1;
}
SheetTable:focus { border-top: heavy $accent; }
"""
"""What all screens share; each adds what its own lines and tables need."""


class Shown(Protocol):
    """What a screen shows: looks go in."""

    interval_ns: int
    look_count: int

    def take(self, look: Any) -> None:  # noqa: ANN401
        """Learn what a look saw."""
        ...


class Looked(Message):
    """A look was taken."""

    def __init__(self, look: Any) -> None:  # noqa: ANN401
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

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static(self._text, markup=False)


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


class LiveScreen(App[None]):
    """A screen without anything on it; who makes one says what is drawn."""

    ENABLE_COMMAND_PALETTE = False
    HELP: ClassVar[str] = ""
    FIRST: ClassVar[str] = ""
    """The table that has the focus."""
    CSS = FRAME_CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,ctrl+c", "quit", "Quit"),
        ("p", "pause", "Pause"),
        ("s", "sort", "Sort"),
        ("tab", "app.focus_next", "Next table"),
        ("question_mark", "help", "Help"),
    ]

    def __init__(
        self,
        board: Shown,
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
        self.zone = zone
        self._ending: asyncio.AbstractEventLoop | None = None
        self._watcher: Watcher | None = None
        if looker is not None:
            self._watcher = Watcher(
                looker,
                interval_ns=board.interval_ns,
                tell=lambda look: self._tell(Looked(look)),
                fail=lambda error: self._tell(Failed(error)),
            )

    def on_mount(self) -> None:
        """Draw what is known, which is nothing yet."""
        self._ending = asyncio.get_running_loop()
        self._draw()
        self.query_one(f"#{self.FIRST}").focus()
        if self._watcher is not None:
            self._watcher.start()

    def on_unmount(self) -> None:
        """Look no more."""
        if self._watcher is not None:
            self._watcher.stop()

    def on_resize(self) -> None:
        """Draw the lines as wide as the terminal is now."""
        self.draw_lines()

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
        self.draw_lines()

    def action_sort(self) -> None:
        """Sort the table that has the focus by its next column."""
        table = self.focused
        if isinstance(table, SheetTable) and table.id != "events":
            table.sort_by_next(len(table.columns))
            self.draw_tables()

    def action_help(self) -> None:
        """Say what the keys do."""
        self.push_screen(HelpScreen(self.HELP))

    def picture(self) -> str:
        """Draw what is shown as an SVG, which asks for no font from elsewhere."""
        return _FONTS.sub("", self.export_screenshot(title=self.TITLE))

    async def draw_after(self, look_count: int) -> None:
        """Draw a picture once so many looks were shown, and end."""
        while self.board.look_count < look_count and not self._is_broken:
            self.news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), 1)
        for _ in range(_DRAWN_TRIES):
            if self._is_broken:
                return
            self.drawn = self.picture()
            if _LAST_KEY in self.drawn:
                break
            await asyncio.sleep(_DRAWN_SECONDS)  # The line with the keys comes by itself.
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
        self.draw_lines()
        self.draw_tables()

    def draw_lines(self) -> None:
        """Draw the lines at the top."""
        raise NotImplementedError

    def draw_tables(self) -> None:
        """Draw the tables."""
        raise NotImplementedError

    def write(self, name: str, text: Text) -> None:
        """Draw one line."""
        self.query_one(f"#{name}", Static).update(text)

    def write_problems(self, problems: Sequence[str]) -> None:
        """Draw what is wrong, or nothing."""
        self.write("problem", Text("\n".join(map(printable, problems[:_PROBLEMS_MAX]))))
        self.query_one("#problem").display = bool(problems)
