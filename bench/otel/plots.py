"""The picture of ``bench/OTEL.md``: the way to the sink, and memory in an overload."""

from __future__ import annotations

from typing import Any, Final

from bench.kit import ROOT, Bench

__all__ = ["draw"]

PLACE: Final = ROOT / "bench" / "otel.svg"
_COLOURS: Final = {"straight": "#888", "sync": "#274", "interval": "#4a7"}
_TOLD: Final = {
    "straight": "without a store",
    "sync": "with one",
    "interval": "durability interval",
}


def draw(bench: Bench) -> None:
    """Draw it as SVG, if matplotlib is there."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        print(f"NOT DRAWN: no matplotlib: {PLACE} is as it was")
        return
    rcParams["svg.hashsalt"] = "quiver"
    figure = Figure(figsize=(9.2, 3.3), layout="constrained")
    ways, memory = figure.subplots(1, 2)
    _ways(ways, bench.more["ways_ms"])
    _memory(memory, bench.more["memory_in_overload"])
    figure.savefig(PLACE, metadata={"Date": None})


def _ways(axes: Any, found: dict[str, list[float]]) -> None:
    for name, values in found.items():
        share = [100 * place / len(values) for place in range(len(values))]
        axes.plot(values, share, color=_COLOURS[name], label=_TOLD[name])
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    _dress(axes, "from the sender to the sink", "ms", "requests that came so soon, %")
    axes.legend(fontsize=7, frameon=False)


def _memory(axes: Any, samples: list[list[float]]) -> None:
    axes.plot([at for at, _ in samples], [size for _, size in samples], color="#274")
    axes.set_xlim(0)
    axes.set_ylim(0)
    _dress(axes, "ten times what the sink takes", "seconds", "memory of quiver run, MiB")


def _dress(axes: Any, title: str, below: str, beside: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(below, fontsize=8)
    axes.set_ylabel(beside, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(color="#ddd", linewidth=0.5)
