"""``quiver top``: a store seen live, on a screen."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.exits import BUG, OK
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.signals import stopped_by_signals
from quiver.errors import InputError, MissingError, SourceError, StorageError
from quiver.units import MILLISECOND, SECOND, parse_bytes, parse_duration

if TYPE_CHECKING:
    from quiver.cli.live.board import Board
    from quiver.cli.live.looking import Looker

__all__ = ["top"]

_LEAST: Final = 100 * MILLISECOND
_PICTURE: Final = (100, 30)
"""Columns and lines of a picture."""
_PATIENCE: Final = 0.5
"""Seconds to wait for a look that has begun: a disk that hangs must not keep a terminal."""


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

    For programs there is quiver stats.
    """
    interval_ns = _duration("--interval", interval)
    looks = 2 if time is None else 1 + max(1, _duration("--for", time) // interval_ns)
    if once and svg is not None:
        raise InputError("--once is text and --svg is a picture", hint="give one of them")
    if time is not None and not (once or svg is not None):
        raise InputError("--for: a screen is looked at until q is pressed")
    if not (once or svg is not None or (sys.stdin.isatty() and sys.stdout.isatty())):
        raise InputError("top needs a terminal", hint="--once writes text, --svg a picture")

    from quiver.cli.live.board import Board
    from quiver.cli.live.looking import Looker

    _check(folder, core)
    size_cap = None if cap is None else parse_bytes(cap, key="--cap")
    board = Board(folder, interval_ns=interval_ns, cap=size_cap)
    asker = None
    if pipeline is not None:
        from quiver.cli.live.nodes import NodeAsker

        asker = NodeAsker(pipeline)
    looker = Looker(folder, core=core, asker=asker)
    if not once:
        return _show(output, board, looker, picture=None if svg is None else (svg, looks))
    _write(output, board, looker, looks=looks)
    return OK


def _duration(option: str, text: str) -> int:
    nanoseconds = parse_duration(text, key=option)
    if nanoseconds < _LEAST:
        raise InputError(f"{option}: {text} is too short", hint="100ms is the least")
    return nanoseconds


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


def _show(output: Output, board: Board, looker: Looker, *, picture: tuple[str, int] | None) -> int:
    """Show the screen until somebody quits, or draw it once so many looks were taken.

    Gives the exit code.
    """
    try:
        from quiver.cli.live.screen import TopScreen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise InputError(
            "the screen of top needs the package 'textual'",
            hint="pip install 'quiver-store[top]'; --once writes text and needs none",
        ) from error
    if output.no_color:
        os.environ["NO_COLOR"] = "1"  # It is there that the screen looks.
    screen = TopScreen(board, looker)
    if picture is None:
        with stopped_by_signals(screen.end):
            screen.run()
    else:
        looks = picture[1]
        screen.run(headless=True, size=_PICTURE, auto_pilot=lambda _: screen.draw_after(looks))
    screen.wait_for_looker(_PATIENCE)
    if screen.failure is not None:
        raise screen.failure
    if screen.return_code:  # It has shown the traceback.
        return BUG
    if picture is not None:
        _save(picture[0], screen.drawn)
    return OK


def _save(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
