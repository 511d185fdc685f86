"""``quiver chain top``: nodes and partitions seen live, on a screen."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.chains.desk import chain_options, open_place
from quiver.cli.exits import OK
from quiver.cli.live.showing import View, show, take_view
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import RemoteError
from quiver.units import SECOND

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions
    from quiver.cli.live.chains.board import ChainBoard
    from quiver.cli.live.chains.looking import ChainLooker
    from quiver.cli.live.frame import LiveScreen

__all__ = ["top"]


@verb(
    "top",
    examples=(
        ("quiver chain top --metadata /mnt/meta", "until q is pressed; ? says what the keys do"),
        ("quiver chain top --metadata quiver://n1:7001,n2:7001", "by way of a node that is up"),
        ("quiver chain top --once --metadata etcd://e1:2379/q", "two looks, as text, for a pipe"),
        ("quiver chain top --once --json --metadata /mnt/meta | jq .wants", "copies, in order"),
        ("quiver chain top --svg top.svg --for 20s --metadata /mnt/meta", "a picture"),
    ),
)
@click.option("--interval", default="1s", metavar="TIME", help="From look to look.  [default: 1s]")
@click.option("--once", is_flag=True, help="Write what two looks see, and end; --json does too.")
@click.option("--svg", metavar="FILE", help="Write a picture of the screen, and end.")
@click.option("--for", "time", metavar="TIME", help="With --once or --svg: look for so long.")
@chain_options
def top(
    output: Output,
    *,
    interval: str,
    once: bool,
    svg: str | None,
    time: str | None,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> int:
    """Watch a chain live.

    Nodes: how they are, how full, what they have, of which open blocks they are first and last.
    Partitions: what comes in, which block is open on which nodes, what the last of these lacks yet.
    Copies that are wanted, in the order in which they are made; and what happened. Metadata are
    read and nodes are asked, nothing is changed.
    """
    once = once or (output.as_json and svg is None)
    view = take_view(interval=interval, once=once, svg=svg, time=time)

    from quiver.chain.membership import Members
    from quiver.cli.live.chains.board import ChainBoard
    from quiver.cli.live.chains.looking import ChainLooker
    from quiver.clock import SystemClock

    metadata = open_place(place, options, wire=wire)
    board = ChainBoard(place, interval_ns=view.interval_ns)
    looker = ChainLooker(metadata, Members(metadata, clock=SystemClock(), options=wire))
    if not once:
        return show(output, lambda: _screen(board, looker), view)
    _look(board, looker, view)
    if output.as_json:
        output.document(_document(board))
    else:
        _write(output, board)
    if board.problem is not None:
        raise RemoteError(board.problem)
    return OK


def _screen(board: ChainBoard, looker: ChainLooker) -> LiveScreen:
    from quiver.cli.live.chains.screen import ChainScreen

    return ChainScreen(board, looker)


def _look(board: ChainBoard, looker: ChainLooker, view: View) -> None:
    pause = threading.Event()
    with closing(looker):
        for number in range(view.looks):
            if number:
                pause.wait(view.interval_ns / SECOND)
            board.take(looker.look())


def _write(output: Output, board: ChainBoard) -> None:
    from quiver.cli.live.chains import words

    output.text(words.head_line(board, is_paused=False))
    output.text(words.rate_words(board))
    output.text(words.total_line(board))
    for title, sheet, empty in (
        ("nodes", words.node_sheet(board), "none ever said that it is there"),
        ("partitions", words.partition_sheet(board), "none yet"),
        ("copies wanted", words.want_sheet(board), "none"),
        ("events", words.event_sheet(board), "nothing happened yet"),
    ):
        rows = [row.cells for row in sheet.rows]
        output.table(title, sheet.titles, rows, empty=empty, right=sheet.right)
    for fault in board.look.faults if board.look is not None else ():
        output.warn(fault)


def _document(board: ChainBoard) -> dict[str, Any]:
    look = board.look
    nodes = look.nodes if look is not None else ()
    partitions = look.partitions if look is not None else ()
    return {
        "nodes": [{**each._asdict(), "fill": round(each.fill, 4)} for each in nodes],
        "partitions": [
            {
                **each._asdict(),
                "chain": list(each.chain),
                "lengths": list(each.lengths),
                "lag_bytes": each.lag_bytes,
                "bytes_per_second": board.rates.get(each.name),
            }
            for each in partitions
        ],
        "wants": [
            {**each._asdict(), "present": list(each.present)}
            for each in (look.wants if look is not None else ())
        ],
        "want_count": look.want_count if look is not None else 0,
        "problem": board.problem,
    }
