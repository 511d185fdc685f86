"""``make bench-segment``: segments against plain files in the same run, in interleaved rounds.

Writes ``bench/SEGMENT.md`` and ``bench/segment.json`` unless ``--try`` is given.
"""

from __future__ import annotations

from typing import Final

from bench.kit import run_parts
from bench.segment.finalizes import appends, finalizes
from bench.segment.openings import openings
from bench.segment.scans import columns, scans

PARTS: Final = {
    "finalizes": finalizes,
    "appends": appends,
    "scans": scans,
    "columns": columns,
    "openings": openings,
}


if __name__ == "__main__":
    run_parts("segment", "Segments against the same bytes with nothing around", PARTS)
