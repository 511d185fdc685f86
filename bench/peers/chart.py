"""The picture: throughput of all, by how they commit, and the latencies behind it."""

from __future__ import annotations

from pathlib import Path

from bench.peers.page import Found, median
from bench.peers.peers import RAW, find
from bench.peers.runs import Side

__all__ = ["draw"]

_COLOURS = {"a power cut": "#4a7", "a kill": "#8ac"}
_OURS = "#163"
_RAW = "#bbb"
_SHARES = {"0.5": "o", "0.99": "s", "0.999": "^"}


def draw(found: Found, rows: int, place: Path) -> None:
    """Draw it as SVG, if matplotlib is there."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        print(f"NOT DRAWN: no matplotlib: {place}.svg is as it was")
        return
    rcParams["svg.hashsalt"] = "quiver"
    figure = Figure(figsize=(11, 8), layout="constrained")
    places = figure.subplots(2, 2)
    words = {"group": "a commit every 25 ms", "each": "a commit for each append"}
    for (mode, title), (left, right) in zip(words.items(), places, strict=True):
        sides = [side for side in found if (side.mode, side.rows) == (mode, rows)]
        sides.sort(key=lambda side: median(found[side], "rate"))
        _rates(left, found, sides)
        left.set_title(f"{title}, {rows:,} rows")
        _latencies(right, found, sides)
        right.set_title("from append to ack")
    figure.savefig(place.with_suffix(".svg"), metadata={"Date": None})


def _rates(axes, found: Found, sides: list[Side]) -> None:
    for side in sides:
        rate, survives = median(found[side], "rate"), find(side.peer).survives
        colour = _RAW if side.peer in RAW else _COLOURS[survives]
        axes.barh(side.peer, rate, color=_OURS if side.peer == "quiver" else colour)
        axes.text(rate, side.peer, f" {rate:,.0f}", va="center", fontsize=8)
    axes.set_xlabel("MB/s")
    axes.set_ylabel("peer")
    axes.margins(x=0.15)
    there = {find(side.peer).survives for side in sides}
    if any(side.peer in RAW for side in sides):
        axes.barh([sides[0].peer], [0], color=_RAW, label="raw writing, no store")
    for survives, colour in _COLOURS.items():
        if survives in there:
            axes.barh([sides[0].peer], [0], color=colour, label=f"survives {survives}")
    axes.legend(loc="lower right", fontsize=8)


def _latencies(axes, found: Found, sides: list[Side]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    names = [side.peer for side in sides]
    for share, marker in _SHARES.items():
        took = [median(found[side], f"ack_{share}") for side in sides]
        axes.plot(took, names, marker, label=f"p{100 * float(share):g}", markersize=5)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("ms")
    axes.set_ylabel("peer")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
