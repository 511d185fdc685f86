"""The curves of ``bench/GROWTH.md``: a measure on each small picture, with its spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["Curve", "draw"]

_COLUMNS: Final = 4
_WIDTH, _HEIGHT = 3.1, 2.4


class Curve(NamedTuple):
    """One measure: several values at each place, in a unit."""

    title: str
    unit: str
    axis: str
    places: Sequence[float]
    values: Sequence[Sequence[float]]


def draw(curves: Sequence[Curve], place: Path) -> None:
    """Draw all curves as SVG."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "quiver"
    rows = -(-len(curves) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * _WIDTH, rows * _HEIGHT), layout="constrained")
    every: Any = figure.subplots(rows, _COLUMNS, squeeze=False)
    for axes in every.flat[len(curves) :]:
        axes.set_axis_off()
    for axes, curve in zip(every.flat, curves, strict=False):
        middle = [statistics.median(values) for values in curve.values]
        low = [min(values) for values in curve.values]
        high = [max(values) for values in curve.values]
        axes.fill_between(curve.places, low, high, color="#4a7", alpha=0.25, linewidth=0)
        axes.plot(curve.places, middle, color="#274", marker="o", markersize=3)
        axes.set_ylim(0, max(2 * max(middle), 1e-9) if middle else 1)
        axes.set_xlim(0)
        axes.set_title(curve.title, fontsize=9)
        axes.set_xlabel(curve.axis, fontsize=8)
        axes.set_ylabel(curve.unit, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(color="#ddd", linewidth=0.5)
    figure.savefig(place.with_suffix(".svg"), metadata={"Date": None})
