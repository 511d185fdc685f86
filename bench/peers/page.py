"""What is below the ratios: figures of each peer, and how it was set up."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, Final

from bench.peers.peers import find
from bench.peers.runs import Side

__all__ = ["Found", "median", "medians", "notes"]

Found = Mapping[Side, Mapping[int, dict[str, Any]]]

_HOW: Final = """
Each run is a process of its own that appends four-slot bundles for 2 s (slow peers 1 s) or 500 MB,
is killed by SIGKILL with appends on their way, and is followed by another process that opens what
is left, takes the first bundle, and reads everything. Each value that comes back is compared with
what was given, and so is its type unless the table says which types a peer has instead; what comes
back is what was acked, or that and some of what was on its way, else the run fails. A kill leaves
what the kernel had: no run cuts the power, and "survives" is what a peer promises.

All but raw writing, DuckDB, Delta, Lance and Parquet get a bundle as one value, the IPC streams of
its slots behind each other, encoded in their time into memory that is used again. With 25 ms
whoever appends commits when so much has passed since the last commit; Quiver's worker does it by
itself, and a thread of `raw-tuned`. Quiver writes its log and its segments, the others one copy;
what is still in memory when the time is up, an open segment or a memtable, is durable in a log. MB
are of encoded bundles, whatever a peer makes of them. CPU, memory, and bytes written are those of
client and server together; memory is what came on top of imports and bundles, mapped files
included, and all of a server. All keep memory that is free (`MALLOC_TRIM_THRESHOLD_` and the like):
without that LMDB takes 250 fresh pages from the kernel for each MB, and reaches two thirds of this.
Written is by `/proc/<pid>/io`. "Opened" is until the first bundle, a server's start included.
Reading is of pages that are in memory; what is mapped is not touched. Medians of the rounds; who
has no goal of its own is measured in every third one, raw writing in the first two, and 100 and
10,000 rows in the first alone.
"""

_COLUMNS: Final = (
    (
        "| peer | survives | MB/s | bundles/s | p50 ms | p99 ms | p99.9 ms | CPU ms/MB | memory MB "
        "| written | on disk | opened ms | read MB/s |"
    ),
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
)


def median(rounds: Mapping[int, dict[str, Any]], name: str) -> float:
    """Give the median of a figure."""
    return statistics.median(one[name] for one in rounds.values())


def medians(rounds: Mapping[int, dict[str, Any]]) -> dict[str, float]:
    """Give the medians of all figures, and how many rounds there were."""
    names = next(iter(rounds.values()))
    return {name: median(rounds, name) for name in names} | {"rounds": len(rounds)}


def notes(found: Found, syncs: Mapping[str, float | None], absent: Mapping[str, str]) -> list[str]:
    """Write the tables."""
    lines = ["", "![throughput and latency by peer](peers.svg)", *_HOW.splitlines()]
    for mode, words in (("group", "A commit every 25 ms"), ("each", "A commit for each append")):
        sizes = sorted({side.rows for side in found if side.mode == mode})
        for rows in sorted(sizes, key=lambda size: (size != 1000, size)):
            lines += ["", f"## {words}, bundles of {rows:,} rows", "", *_COLUMNS]
            sides = [side for side in found if (side.mode, side.rows) == (mode, rows)]
            order = sorted(sides, key=lambda side: -median(found[side], "rate"))
            lines += [_line(side, found[side]) for side in order]
    lines += ["", "## How each was set up", ""]
    lines += ["| peer | version | survives | syncs for an append | settings |"]
    lines += ["|---|---|---|---:|---|"]
    for name, count in syncs.items():
        kind = find(name)
        calls = "" if count is None else f"{count:g}"
        lines.append(f"| {name} | {kind.version()} | {kind.survives} | {calls} | {kind.settings} |")
    lines += ["", "Syncs are calls of fsync, fdatasync and the like, by `strace`, over 20 appends"]
    lines += ["of 1,000 rows without a group commit, those of threads and servers included."]
    lines += [f"\n**Not measured: {name}**: {why}" for name, why in absent.items()]
    return lines


def _line(side: Side, rounds: Mapping[int, dict[str, Any]]) -> str:
    def of(name: str, form: str = ",.1f") -> str:
        return format(median(rounds, name), form)

    rates = [one["rate"] for one in rounds.values()]
    rate = f"{of('rate', ',.0f')} ({min(rates):,.0f} to {max(rates):,.0f})"
    cells = [
        side.peer,
        find(side.peer).survives,
        rate,
        of("bundles_per_second", ",.0f"),
        *(of(f"ack_{share}", ",.2f") for share in ("0.5", "0.99", "0.999")),
        of("cpu_ms_per_mb", ",.2f"),
        of("memory_mb", ",.0f"),
        of("written_per_byte", ".2f"),
        of("disk_per_byte", ".2f"),
        of("opened_ms"),
        of("read_rate", ",.0f"),
    ]
    return f"| {' | '.join(cells)} |"
