"""The page of the whole: what each part found that has a goal, and a picture of each."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.kit import machine

__all__ = ["Part", "Told", "draw", "goals", "page"]

_LABEL: Final = 62
_OLDER: Final = (
    "So are [several writers of one store](CORES.md), `make bench-cores`, and "
    "[the log alone](WAL.md), `make bench-wal`."
)
_LEAST, _MOST = 0.04, 25.0
"""What is farther from its goal stands at the edge of a picture."""
_REACHED, _MISSED = "#4a7", "#c33"


class Part(NamedTuple):
    """What is run, how long that may take, and what it draws besides."""

    name: str
    options: tuple[str, ...]
    seconds: int
    """Of the twenty minutes."""
    plots: tuple[str, ...] = ()


class Told(NamedTuple):
    """One figure that has a goal."""

    measure: str
    figure: float
    spread: tuple[float, float]
    bound: str
    wanted: float
    unit: str
    reached: bool

    def score(self, figure: float) -> float:
        """Say how many times as good as its goal a figure is."""
        score = (
            figure / self.wanted if self.bound == "at least" else self.wanted / max(figure, 1e-9)
        )
        return min(max(score, _LEAST), _MOST)


def goals(found: Mapping[str, Any]) -> list[Told]:
    """Pick the rows of a part that have a goal: a ratio, or microseconds."""
    every = []
    for row in found["rows"]:
        if "reached" in row:
            unit, figure = ("", row["ratio"]) if "ratio" in row else (" us", row["microseconds"])
            bound, wanted = row.get("bound", "at most"), row.get("wanted", row.get("at_most"))
            spread = row["least"], row["most"]
            every.append(Told(row["measure"], figure, spread, bound, wanted, unit, row["reached"]))
    for row in found.get("streaming", []):
        if row["goal"] is not None:
            value, bound, wanted = row["value"], row["word"], row["goal"]
            reached = value >= wanted if bound == "at least" else value <= wanted
            every.append(Told(row["name"], value, (value, value), bound, wanted, "", reached))
    return every


def page(
    parts: Sequence[Part],
    found: Mapping[str, Any],
    took: Mapping[str, float],
    absent: list[str],
    *,
    alone: Mapping[str, Any] | None = None,
) -> str:
    """Write it; ``absent`` are the parts that failed, ``alone`` what others measured since."""
    where = machine()
    said = {n: v for part in found.values() for n, v in part.get("versions", {}).items()}
    versions = "".join(f", {name} {version}" for name, version in sorted(said.items()))
    every = {name: goals(part) for name, part in found.items()}
    count = sum(len(rows) for rows in every.values())
    missed = sum(not row.reached for rows in every.values() for row in rows)
    minutes = sum(took.values()) / 60
    loads = ", ".join(f"{part['machine']['load']:g} {name}" for name, part in found.items())
    how = (
        f"{where['date']}. Made by `make bench` in {minutes:.0f} minutes on {where['cores']} cores "
        f"with {where['memory_gib']} GiB: Linux {where['kernel']}, Python {where['python']}, "
        f"pyarrow {where['pyarrow']}{versions}. Load at the end of each part: {loads}."
    )
    what = (
        f"Of {count} figures with a goal {count - missed} reach it; the others are in bold. Each "
        "is a ratio of medians of rounds in which both sides take turns, in one run on one disk, "
        "where no unit is given. The page of a part has the rest of its figures and how it was "
        "measured; [PROFILES.md](PROFILES.md) says where the time of those that miss goes."
    )
    lines = ["# What Quiver costs, beside the raw disk and beside others", "", how, "", what]
    lines += [f"\n**Not in this report: {name}**" for name in absent]
    lines += ["", "| part | goals | reached | seconds | its share |", "|---|---:|---:|---:|---:|"]
    for part in parts:
        if part.name in found:
            rows = every[part.name]
            reached = sum(row.reached for row in rows)
            lines.append(
                f"| [{found[part.name]['title']}]({part.name.upper()}.md) | {len(rows)} "
                f"| {reached} | {took.get(part.name, 0):.0f} | {part.seconds} |"
            )
    lines += _alone(alone or {})
    for part in parts:
        if part.name in found:
            lines += _section(part, found[part.name], every[part.name])
    return "\n".join(lines) + "\n"


def _alone(found: Mapping[str, Any]) -> list[str]:
    """Say where the goals are that are no part of this, and how many of them are reached."""
    if not found:
        return []
    lines = ["", "Measured by themselves, and in none of the sums above:", ""]
    lines += ["| page | goals | reached | made by |", "|---|---:|---:|---|"]
    for name, one in found.items():
        rows = goals(one)
        reached = sum(row.reached for row in rows)
        how = f"`{one['command']}`, {one['machine']['date']}"
        lines.append(f"| [{one['title']}]({name.upper()}.md) | {len(rows)} | {reached} | {how} |")
    return [*lines, "", _OLDER]


def _section(part: Part, found: Mapping[str, Any], rows: Sequence[Told]) -> list[str]:
    scale = "" if found["scale"] == 1 else f", {found['scale']:g} of the data"
    name, title = part.name, found["title"]
    how = f"`{found['command']}`, {found['machine']['date']}, {found['rounds']} rounds{scale}"
    lines = ["", f"## {title}", "", f"{how}: [all of it]({name.upper()}.md)"]
    lines += [f"\n![{title}: the goals](plots/{name}.svg)"] if rows else []
    lines += [f"\n![{title}]({plot}.svg)" for plot in part.plots]
    lines += ["", "| measure | figure | least to most | wanted |", "|---|---:|---:|---:|"]
    for row in rows:
        figure = f"{row.figure:.3g}{row.unit}"
        figure = figure if row.reached else f"**{figure}**"
        spread = f"{row.spread[0]:.3g} to {row.spread[1]:.3g}"
        lines.append(
            f"| {row.measure} | {figure} | {spread} | {row.bound} {row.wanted:g}{row.unit} |"
        )
    return lines


def draw(rows: Sequence[Told], place: Path) -> None:
    """Draw how far each figure of a part is from its goal."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        print(f"NOT DRAWN: no matplotlib: {place} is as it was")
        return
    rcParams["svg.hashsalt"] = "quiver"
    labels = [
        "\n".join(textwrap.wrap(row.measure.replace("_", " "), _LABEL, break_long_words=False))
        for row in rows
    ]
    heights = [0.3 + 0.15 * label.count("\n") for label in labels]
    figure = Figure(figsize=(9.5, sum(heights) + 0.9), layout="constrained")
    axes: Any = figure.subplots()
    places = []
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        at = top + height / 2
        top += height
        places.append(at)
        colour = _REACHED if row.reached else _MISSED
        ends = sorted(row.score(value) for value in row.spread)
        axes.plot(ends, [at, at], color=colour, linewidth=3, alpha=0.35)
        axes.plot([row.score(row.figure)], [at], "o", color=colour, markersize=5)
    axes.axvline(1, color="#555", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(_LEAST * 0.85, _MOST * 1.15)
    ticks = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 10, 20]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_ylim(top, 0)
    axes.set_yticks(places, labels, fontsize=8)
    axes.set_xlabel("times as good as its goal; the bar is from the least to the most", fontsize=8)
    axes.set_ylabel("measure", fontsize=8)
    axes.grid(axis="x", color="#ddd", linewidth=0.5)
    place.parent.mkdir(exist_ok=True)
    figure.savefig(place, metadata={"Date": None})
