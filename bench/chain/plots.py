"""The picture of ``bench/CHAIN.md``: throughput, waits, lags and pauses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = ["draw"]

_COLOURS: Final = {"single": "#c63", "chain_1": "#9c9", "chain_2": "#4a7", "chain_3": "#274"}
_NAMES: Final = {"single": "one store", "chain_1": "1 copy", "chain_2": "2 copies"}
_GOAL_SECONDS: Final = 1.5


def draw(more: Mapping[str, Any], place: Path) -> None:
    """Draw what was measured, if matplotlib is there."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        print(f"NOT DRAWN: no matplotlib: {place} is as it was")
        return
    rcParams["svg.hashsalt"] = "quiver"
    figure = Figure(figsize=(9.4, 7.2), layout="constrained")
    every: Any = figure.subplots(2, 2)
    _rates(every[0, 0], more["rates"])
    _waits(every[0, 1], more["waits"], more["behind"])
    grid = every[1, 0].get_gridspec()
    for each in every[1]:
        each.remove()
    _pauses(figure.add_subplot(grid[1, :]), more["pauses"])
    figure.savefig(place, metadata={"Date": None})


def _rates(axes: Any, rates: Mapping[str, Sequence[float]]) -> None:
    single = statistics.median(rates["single"]) / 1e6
    for at, (side, found) in enumerate(rates.items()):
        middle = statistics.median(found) / 1e6
        axes.bar(at, middle, color=_COLOURS[side], width=0.7)
        axes.plot([at] * len(found), [each / 1e6 for each in found], "k.", markersize=3)
        if at:
            axes.plot([at - 0.42, at + 0.42], [0.8 * single / at] * 2, color="#c33", linewidth=1.5)
    axes.plot([], [], color="#c33", label="0.8 of the store's, by copies")
    axes.set_xticks(range(len(rates)), [_NAMES.get(side, "3 copies") for side in rates])
    _dressed(axes, "entries of 1 MiB, synced, on the disk as it is", "", "MB a second")
    axes.legend(fontsize=7, frameon=False)


def _waits(axes: Any, waits: Mapping[str, Sequence[float]], behind: Sequence[float]) -> None:
    for side, colour in _COLOURS.items():
        name = _NAMES.get(side, "3 copies")
        _share(axes, [1e3 * each for each in waits[side]], colour, name)
    _share(axes, [max(each, 0.01) for each in behind], "#69b", "a live cursor behind the ack")
    axes.set_xscale("log")
    _dressed(axes, "an entry of 10 KB, synced, one at a time", "ms", "share of entries")
    axes.set_xlim(right=1000)  # Room for what the colours mean.
    axes.legend(fontsize=7, frameon=False, loc="center right")


def _share(axes: Any, values: Sequence[float], colour: str, label: str) -> None:
    axes.plot(np.sort(values), np.linspace(0, 1, len(values)), color=colour, label=label)


def _pauses(axes: Any, pauses: Mapping[str, Sequence[float]]) -> None:
    for at, found in enumerate(pauses.values()):
        missed = statistics.median(found) > _GOAL_SECONDS
        axes.barh(at, statistics.median(found), color="#c33" if missed else "#4a7", height=0.6)
        axes.plot(found, [at] * len(found), "k.", markersize=4)
    axes.axvline(_GOAL_SECONDS, color="#555", linewidth=1)
    axes.set_yticks(range(len(pauses)), list(pauses))
    axes.invert_yaxis()
    _dressed(axes, "longest pause of acknowledgements, three copies on four nodes", "seconds", "")


def _dressed(axes: Any, title: str, below: str, beside: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(below, fontsize=8)
    axes.set_ylabel(beside, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(color="#ddd", linewidth=0.5)
    axes.set_axisbelow(True)
