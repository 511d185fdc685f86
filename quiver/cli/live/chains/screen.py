"""The screen of ``quiver chain top``."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Footer, Static

from quiver.cli.live.chains.board import ChainBoard
from quiver.cli.live.chains.words import (
    event_sheet,
    head_line,
    node_sheet,
    partition_sheet,
    rate_words,
    total_line,
    want_sheet,
)
from quiver.cli.live.frame import FRAME_CSS, LiveScreen, SheetTable
from quiver.cli.live.words import spark

__all__ = ["ChainScreen"]

_SPARK_MIN: Final = 8

_HELP: Final = """\
q       quit; Ctrl-C too
p       pause, and go on
s       sort the table that has the focus by its next column
tab     next table; arrows move in one, and on to the next
?       this, and away with it

full    of a node's disk, or of what --capacity gives it
logs    copies that are no segments yet: open, or sealed a moment ago
head    open blocks that loaders send to it; tail: that are read there
duty    the auditor finishes, copies, balances and deletes for all
open    the block that is written, and so far what its first node has
lag     what the first node of a chain has and its last one does not:
        not acknowledged yet, and seen by no reader
wanted  blocks with fewer copies on nodes that answer than RF
copies wanted: in the order in which they are made; a node that vanished
        is waited for half a minute, unless one copy is left

Metadata are read and nodes are asked; nothing is changed."""


class ChainScreen(LiveScreen):
    """The screen of a chain."""

    TITLE = "quiver chain top"
    HELP: ClassVar[str] = _HELP
    FIRST: ClassVar[str] = "partitions"
    board: ChainBoard
    CSS = (
        FRAME_CSS
        + """
    #rate { height: 1; }
    #totals { height: auto; color: $text-muted; }
    #nodes { height: auto; max-height: 35%; min-height: 3; }
    #partitions { height: auto; max-height: 35%; min-height: 3; }
    #wants { height: auto; max-height: 30%; min-height: 2; display: none; }
    #events { height: 1fr; min-height: 3; }
    """
    )

    def compose(self) -> ComposeResult:
        """Lay out the lines at the top, the tables and the keys."""
        for name in ("head", "rate", "totals", "problem"):
            yield Static(id=name, markup=False)
        yield SheetTable("nodes", empty="none ever said that it is there", id="nodes")
        yield SheetTable("partitions", empty="none yet", id="partitions")
        yield SheetTable("copies wanted", empty="none", id="wants")
        yield SheetTable("events", empty="nothing happened yet", id="events")
        yield Footer()

    def draw_lines(self) -> None:
        """Draw what is told of the whole chain."""
        board, width = self.board, self.size.width
        self.write("head", Text(head_line(board, is_paused=self.is_paused, zone=self.zone)))
        line = Text(f"{rate_words(board)}  ")
        room = width - len(line)
        if board.history and room >= _SPARK_MIN:
            line.append(spark(list(board.history)[-room:]), "cyan")
        self.write("rate", line)
        self.write("totals", Text(total_line(board)))
        problems = [] if board.problem is None else [board.problem]
        if board.look is not None:
            problems += board.look.faults
        self.write_problems(problems)

    def draw_tables(self) -> None:
        """Draw nodes, partitions, copies that are wanted, and events."""
        board = self.board
        wants = want_sheet(board)
        self.query_one("#wants", SheetTable).display = bool(wants.rows)
        for name, sheet in (
            ("nodes", node_sheet(board)),
            ("partitions", partition_sheet(board)),
            ("wants", wants),
            ("events", event_sheet(board, self.zone)),
        ):
            self.query_one(f"#{name}", SheetTable).show(sheet)
