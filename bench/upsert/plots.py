"""The picture of ``bench/UPSERT.md``: what a batch costs, and what memory does."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["Line", "Panel", "draw"]

_COLUMNS: Final = 2
_WIDTH, _HEIGHT = 4.6, 3.3
_COLOURS: Final = {"without Spark": "#274", "Spark": "#4a7", "delta-rs": "#c63"}
_OTHERS: Final = ("#246", "#69b", "#987")


class Line(NamedTuple):
    """What one side took, several times at each place."""

    side: str
    places: Sequence[float]
    values: Sequence[Sequence[float]]


class Panel(NamedTuple):
    """One small picture."""

    title: str
    axis: str
    unit: str
    lines: Sequence[Line]
    is_log: bool = True


def draw(panels: Sequence[Panel], place: Path) -> None:
    """Draw them all as SVG, if matplotlib is there."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        print(f"NOT DRAWN: no matplotlib: {place} is as it was")
        return
    rcParams["svg.hashsalt"] = "quiver"
    rows = -(-len(panels) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT), layout="constrained")
    every: Any = figure.subplots(rows, _COLUMNS, squeeze=False)
    for axes in every.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(every.flat, panels, strict=False):
        _panel(axes, panel)
    figure.savefig(place, metadata={"Date": None})


def _panel(axes: Any, panel: Panel) -> None:
    others = iter(_OTHERS)
    for line in panel.lines:
        colour = _COLOURS.get(line.side) or next(others)
        middle = [statistics.median(values) for values in line.values]
        low = [min(values) for values in line.values]
        high = [max(values) for values in line.values]
        axes.fill_between(line.places, low, high, color=colour, alpha=0.2, linewidth=0)
        mark = "o" if len(line.places) < 12 else ""
        axes.plot(line.places, middle, color=colour, marker=mark, markersize=3, label=line.side)
    if panel.is_log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(0)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.25)  # The names of the lines stand above them.
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.axis, fontsize=8)
    axes.set_ylabel(panel.unit, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(color="#ddd", linewidth=0.5)
    axes.legend(fontsize=7, frameon=False)
