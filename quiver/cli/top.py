"""``quiver top``: a store seen live, on a screen."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import click

from quiver.cli.exits import OK
from quiver.cli.live.showing import show, take_view
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.errors import MissingError, SourceError, StorageError
from quiver.units import SECOND, parse_bytes

if TYPE_CHECKING:
    from quiver.cli.live.board import Board
    from quiver.cli.live.frame import LiveScreen
    from quiver.cli.live.looking import Looker

__all__ = ["top"]


@verb(
    "top",
    examples=(
        ("quiver top store", "until q is pressed; ? says what the keys do"),
        ("quiver top store --cap 10GiB --interval 5s", "as the writer's retention.size_cap"),
        ("quiver top store --pipeline 127.0.0.1:13133", "receivers and exporters of a run too"),
        ("quiver top store --once", "two looks, as text, for a pipe"),
        ("quiver top store --svg top.svg --for 20s", "a picture of the screen"),
    ),
    reports=False,
)
@click.argument("folder", metavar="DIR")
@click.option("--interval", default="1s", metavar="TIME", help="From look to look.  [default: 1s]")
@click.option("--core", type=click.IntRange(0, COUNT_MAX), metavar="N", help="This core alone.")
@click.option("--cap", metavar="SIZE", help="The writer's retention.size_cap: no file tells it.")
@click.option("--pipeline", metavar="URL", help="Of quiver run --listen: its nodes are shown too.")
@click.option("--once", is_flag=True, help="Write as text what two looks see, and end.")
@click.option("--svg", metavar="FILE", help="Write a picture of the screen, and end.")
@click.option("--for", "time", metavar="TIME", help="With --once or --svg: look for so long.")
def top(
    output: Output,
    *,
    folder: str,
    interval: str,
    core: int | None,
    cap: str | None,
    pipeline: str | None,
    once: bool,
    svg: str | None,
    time: str | None,
) -> int:
    """Watch a store live.

    What comes in, what each core and each station has, how far each subscriber is, and what
    happened: all cores, from what lies between two looks. Takes no lock and changes nothing, so it
    may be used beside writers. A look reads the list of files, the ends of new segments, what was
    appended to the log since, and ack.log.

    For programs there is quiver stats, for a chain of nodes quiver chain top.
    """
    view = take_view(interval=interval, once=once, svg=svg, time=time)

    from quiver.cli.live.board import Board
    from quiver.cli.live.looking import Looker

    _check(folder, core)
    size_cap = None if cap is None else parse_bytes(cap, key="--cap")
    board = Board(folder, interval_ns=view.interval_ns, cap=size_cap)
    asker = None
    if pipeline is not None:
        from quiver.cli.live.nodes import NodeAsker

        asker = NodeAsker(pipeline)
    looker = Looker(folder, core=core, asker=asker)
    if not once:
        return show(output, lambda: _screen(board, looker), view)
    _write(output, board, looker, looks=view.looks)
    return OK


def _screen(board: Board, looker: Looker) -> LiveScreen:
    from quiver.cli.live.screen import TopScreen

    return TopScreen(board, looker)


def _check(folder: str, core: int | None) -> None:
    """Raise what says that there is no store to look at, before a screen would."""
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.manifest import StoreManifest

    with closing(open_folder(folder)) as disk:
        StoreManifest.read(disk)
        if core is not None and core not in core_numbers(disk):
            known = ", ".join(map(str, core_numbers(disk))) or "none"
            raise MissingError(f"{folder} has no core {core}", hint=f"cores: {known}")


def _write(output: Output, board: Board, looker: Looker, *, looks: int) -> None:
    """Look, wait, look again, and write what is to be seen then."""
    from quiver.cli.live import words

    pause = threading.Event()
    with closing(looker):
        for number in range(looks):
            if number:
                pause.wait(board.interval_ns / SECOND)
            board.take(looker.look())
    output.text(words.head_line(board, is_paused=False))
    output.text(words.rate_words(board))
    output.text(words.used_words(board)[0])
    if board.look is not None:
        output.text(words.station_line(board.look))
    nodes = words.node_sheet(board)
    if nodes is not None:
        rows = [row.cells for row in nodes.rows]
        output.table("nodes", nodes.titles, rows, empty="none to see", right=nodes.right)
    for title, sheet, empty in (
        ("cores", words.core_sheet(board), "none yet"),
        ("subscribers", words.subscriber_sheet(board), "nobody has subscribed"),
        ("events", words.event_sheet(board.events), "nothing happened yet"),
    ):
        rows = [row.cells for row in sheet.rows]
        output.table(title, sheet.titles, rows, empty=empty, right=sheet.right)
    if board.problem is not None:
        raise StorageError(board.problem)
    if board.look is not None and board.look.nodes is not None and board.look.nodes.problem:
        raise SourceError(board.look.nodes.problem)
