"""Wrong lines in what is dropped, expired and kept."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

CENSUS: Final = "quiver.engine.census"
DROPPING: Final = "quiver.engine.dropping"

DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        "what is open is dropped before its log is covered",
        DROPPING,
        "    append(core, [*lost, floor, floor])\n",
        "    append(core, lost)\n",
    ),
    Defect(
        "what is open is dropped behind a floor that is too high",
        DROPPING,
        "sealed.last_wal_seq + 1)",
        "sealed.last_wal_seq + 2)",
    ),
    Defect(
        "what is dropped while open leaves its number to the next segment",
        DROPPING,
        "    core.next_segment_seq = segment_seq + 1\n",
        "",
    ),
    Defect(
        "an evicted segment is one that somebody needs",
        CENSUS,
        "            finished=core.registry.finished(seq),\n",
        "            finished=True,\n",
    ),
)
