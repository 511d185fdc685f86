"""Rounds of several measures in turn, and the page that is made of them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

__all__ = [
    "ROOT",
    "Bench",
    "clocked",
    "machine",
    "p99",
    "quantile",
    "run_parts",
    "save",
    "table",
    "warm",
]

ROOT: Final = Path(__file__).parents[1]

_PIECE = bytes(4 << 20)
_WARM_BYTES = 512 << 20

Bound = Literal["at most", "at least"]


def warm(folder: Path, byte_count: int = _WARM_BYTES) -> None:
    """Write a large file and delete it, so that the page cache grows into memory that is there.

    A host may have taken back memory that was free for some seconds, and giving it again costs ten
    times as much as the write that is to be measured.
    """
    place = folder / "warm"
    with place.open("wb", buffering=0) as file:
        for _ in range(byte_count // len(_PIECE)):
            file.write(_PIECE)
    place.unlink()


def clocked(act: Callable[[], Any]) -> float:
    """Do something; seconds."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def quantile(took: Sequence[float], share: float) -> float:
    """Give the value below which this share of them is."""
    return sorted(took)[min(int(len(took) * share), len(took) - 1)]


def p99(took: Sequence[float]) -> float:
    """Give the 99th percentile."""
    return quantile(took, 0.99)


def machine() -> dict[str, Any]:
    """Say where something was measured, and with what."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "load": round(os.getloadavg()[0], 1),
    }


class Bench:
    """What one run of a part found; ``make bench-<part>`` made it."""

    def __init__(self, folder: Path, *, rounds: int, scale: float, part: str, title: str) -> None:
        self.folder = folder
        self.rounds = rounds
        self.scale = scale
        self.part = part
        self.title = title
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.versions: dict[str, str] = {}
        """Of what it is compared with."""
        self.more: dict[str, Any] = {}
        """What else the JSON has: the values of a picture, for instance."""

    def interleave(self, **acts: Callable[[], Any]) -> dict[str, list[Any]]:
        """Do each thing once unmeasured, then ``rounds`` times in turn; what each of them gave."""
        for act in acts.values():
            act()
        found: dict[str, list[Any]] = {name: [] for name in acts}
        for _ in range(self.rounds):
            for name, act in acts.items():
                found[name].append(act())
        return found

    def add(
        self,
        measure: str,
        over: list[float],
        under: list[float],
        *,
        wanted: tuple[Bound, float] | None = None,
        **more: Any,
    ) -> None:
        """Note ``over / under`` of each round, and what the median of it should be."""
        ratios = [a / b for a, b in zip(over, under, strict=True)]
        median = statistics.median(ratios)
        row: dict[str, Any] = {"measure": measure, "ratio": median}
        row |= {"least": min(ratios), "most": max(ratios)}
        if wanted is not None:
            bound, value = wanted
            row |= {"bound": bound, "wanted": value}
            row["reached"] = median <= value if bound == "at most" else median >= value
        self.rows.append(row | more)
        print(json.dumps(self.rows[-1]), flush=True)

    def save(self) -> None:
        """Write ``bench/<PART>.md`` and ``bench/<part>.json``, which ``make bench`` joins."""
        about = {"title": self.title, "rounds": self.rounds, "scale": self.scale}
        about |= {"versions": self.versions, "rows": self.rows}
        save(self.part, self.page(), **about, **self.more)

    def page(self) -> str:
        """Write the page."""
        where, versions = machine(), "".join(f", {n} {v}" for n, v in self.versions.items())
        how = (
            f"{where['date']}, {where['cores']} cores, {where['memory_gib']} GiB, Linux "
            f"{where['kernel']}, Python {where['python']}, pyarrow {where['pyarrow']}{versions}. "
            f"Made by `make bench-{self.part}`: medians of {self.rounds} rounds, sides in turn, "
            "the page cache warmed before each timed write. What is not reached is in bold."
        )
        lines = [
            f"# {self.title}",
            "",
            how,
            "",
            *table(self.rows),
        ]
        return "\n".join([*lines, *self.notes]) + "\n"


def run_parts(
    part: str,
    title: str,
    acts: Mapping[str, Callable[[Bench], object]],
    *,
    rounds: int = 5,
    draw: Callable[[Bench], object] = lambda _: None,
) -> None:
    """Be the program of a bench: read the options, measure, write the page unless told not to.

    With a page goes the picture that ``draw`` makes.
    """
    options = argparse.ArgumentParser(prog=f"bench.{part}", description=title)
    options.add_argument("--rounds", type=int, default=rounds)
    options.add_argument("--scale", type=float, default=1.0, help="of the amount of data")
    options.add_argument("--dir", help="where to write, on the disk to be measured")
    options.add_argument("--only", choices=acts, action="append", help="a part of it; no page then")
    options.add_argument("--try", dest="attempt", action="store_true", help="write no page")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="quiver-bench-", dir=asked.dir) as folder:
        bench = Bench(Path(folder), rounds=asked.rounds, scale=asked.scale, part=part, title=title)
        for name in asked.only or acts:
            acts[name](bench)
    if not asked.attempt and not asked.only:
        bench.save()
        draw(bench)
    print(bench.page())


def save(part: str, page: str, **found: Any) -> None:
    """Write the page of a part, and what was found beside the command and the machine."""
    about = {"part": part, "command": f"make bench-{part}", "machine": machine()}
    (ROOT / "bench" / f"{part}.json").write_text(json.dumps(about | found, indent=2) + "\n")
    (ROOT / "bench" / f"{part.upper()}.md").write_text(page)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Write rows as lines of a table in Markdown."""
    lines = [
        "| measure | ratio | least to most | wanted | more |",
        "|---|---:|---:|---:|---|",
    ]
    known = ("measure", "ratio", "least", "most", "bound", "wanted", "reached")
    for row in rows:
        extra = {name: value for name, value in row.items() if name not in known}
        more = ", ".join(_said(name, value) for name, value in extra.items())
        wanted = f"{row['bound']} {row['wanted']:g}" if "wanted" in row else ""
        ratio = f"{row['ratio']:.2f}" if row.get("reached", True) else f"**{row['ratio']:.2f}**"
        spread = f"{row['least']:.2f} to {row['most']:.2f}"
        lines.append(f"| {row['measure']} | {ratio} | {spread} | {wanted} | {more} |")
    return lines


def _said(name: str, value: object) -> str:
    words = name.replace("_", " ")
    return f"{value:,.4g} {words}" if isinstance(value, int | float) else f"{words} {value}"
