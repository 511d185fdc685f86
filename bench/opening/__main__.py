"""``make bench-opening``: what opening and reading cost, against the same bytes read raw.

Writes ``bench/OPENING.md`` and ``bench/opening.json`` unless ``--try`` is given.
"""

from __future__ import annotations

from typing import Final

from bench.kit import run_parts
from bench.opening.killed import killed
from bench.opening.memory import memory
from bench.opening.scans import cold, scans
from bench.opening.segments import segments

PARTS: Final = {
    "killed": killed,
    "scans": scans,
    "cold": cold,
    "segments": segments,
    "memory": memory,
}


if __name__ == "__main__":
    run_parts("opening", "Opening and reading against the same bytes read raw", PARTS, rounds=7)
