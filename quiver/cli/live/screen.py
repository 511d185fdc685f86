"""The screen of ``quiver top``: a board that is drawn anew with each look."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Footer, Static

from quiver.cli.live.board import Board
from quiver.cli.live.frame import FRAME_CSS, Failed, HelpScreen, LiveScreen, Looked, SheetTable
from quiver.cli.live.words import (
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

__all__ = ["Failed", "HelpScreen", "Looked", "SheetTable", "TopScreen"]

_BAR: Final = 24
_FULL: Final = 0.9
"""From this share of the cap on it is drawn as an alarm."""
_SPARK_MIN: Final = 8

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


class TopScreen(LiveScreen):
    """The screen of a store."""

    TITLE = "quiver top"
    HELP: ClassVar[str] = _HELP
    FIRST: ClassVar[str] = "subscribers"
    board: Board
    CSS = (
        FRAME_CSS
        + """
    #rate, #disk { height: 1; }
    #stations { height: auto; color: $text-muted; }
    #nodes { height: auto; max-height: 40%; min-height: 3; display: none; }
    #cores { height: auto; max-height: 30%; min-height: 3; }
    #subscribers { height: auto; max-height: 40%; min-height: 3; }
    #events { height: 1fr; min-height: 3; }
    """
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

    def draw_lines(self) -> None:
        """Draw what is told of the whole store."""
        board, width = self.board, self.size.width
        self.write("head", Text(head_line(board, is_paused=self.is_paused, zone=self.zone)))
        self.write("rate", _rate_line(board, width))
        words, share = used_words(board)
        line = Text(words)
        if share is not None:
            style = "bold red" if share >= _FULL else "green"
            line.append("  ").append(bar(share, _BAR), style)
        self.write("disk", line)
        self.write("stations", Text(station_line(board.look) if board.look is not None else ""))
        problems = [] if board.problem is None else [board.problem]
        if board.look is not None:
            problems += [text for _, text in board.look.faults]
        self.write_problems(problems)

    def draw_tables(self) -> None:
        """Draw nodes, cores, subscribers and events."""
        board = self.board
        nodes = node_sheet(board)
        table = self.query_one("#nodes", SheetTable)
        table.display = nodes is not None
        if nodes is not None:
            table.show(nodes)
        for name, sheet in (
            ("cores", core_sheet(board)),
            ("subscribers", subscriber_sheet(board)),
            ("events", event_sheet(board.events, self.zone)),
        ):
            self.query_one(f"#{name}", SheetTable).show(sheet)


def _rate_line(board: Board, width: int) -> Text:
    """Say what comes in, and draw what came in before as far as there is room."""
    words = rate_words(board)
    line = Text(f"{words}  ")
    values = board.history.bundles(width - len(line))
    if values and width - len(line) >= _SPARK_MIN:
        line.append(spark(values), "cyan")
    return line
