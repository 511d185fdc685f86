"""Wrong lines in what is done for entries that wait for the write."""

from __future__ import annotations

from typing import Final

from planting import Defect

__all__ = ["DEFECTS"]

DURABLE: Final = "quiver.engine.durable"
OUTGOING: Final = "quiver.engine.outgoing"

DEFECTS: Final = (
    Defect(
        "a flush leaves what waits for the write",
        DURABLE,
        "            write_waiting(self._core)\n            self._commit.sync_all()\n",
        "            self._commit.sync_all()\n",
    ),
    Defect(
        "an append passes what waits for the write",
        "quiver.engine.ingest",
        "        if not may_wait:\n            settle(core)\n",
        "",
    ),
    Defect(
        "what the disk refused stays in the open segment",
        OUTGOING,
        "    core.open_segment.take_back(len(refused))\n",
        "",
    ),
    Defect(
        "nobody is told that the disk refused what waited",
        OUTGOING,
        "            self._untold.update(tickets)\n",
        "            pass\n",
    ),
    Defect(
        "the numbers of what the disk refused are lost",
        OUTGOING,
        "    core.next_wal_seq = refused[0].wal_seq\n",
        "",
    ),
)
