"""What is done for a segment while it is still open: all of its payloads' work but the last few.

Nothing of it is on the disk, and nothing depends on it: without it, or after it failed, the same
file is made of the same bundles, only later.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from quiver.config import SegmentConfig
from quiver.payload import EncodedBundle
from quiver.segment import Builder, Keeper, Rest, SegmentBuilder, no_rest
from quiver.slots import SlotTable

__all__ = ["AHEAD_BYTES", "Preparation"]

AHEAD_BYTES = 4 << 20
"""Bytes of payloads that are worth a look; what came since the last one is left to the end.

A look costs about as much as the work on a megabyte, however little came.
"""


class Preparation:
    """The builder of one segment, which several threads may reach for.

    It unites dictionaries, or ``keeps`` payloads as they came.
    """

    def __init__(self, config: SegmentConfig, rest: Rest = no_rest, *, keeps: bool = False) -> None:
        self.keeps = keeps
        self._lock = threading.Lock()
        self._builder: Builder = (Keeper if keeps else SegmentBuilder)(
            config, trusted=True, rest=rest
        )
        self._wanted = False
        self.spent_ns = 0
        """How long it took so far."""

    @property
    def bundle_count(self) -> int | None:
        """How many bundles are in; None if no more may come."""
        if self._wanted or not self._builder.sound:
            return None
        return len(self._builder.bundles)

    def add(self, bundles: Sequence[EncodedBundle], behind: int, slots: SlotTable) -> None:
        """Take bundles in, behind the first ``behind``; nothing happens if others came there."""
        with self._lock:
            if self.bundle_count == behind:
                self._builder.add(bundles, slots)
                self._builder.sum_up()

    def hand_over(self) -> Builder:
        """Give the builder to whoever writes the segment, again and again; nobody else adds."""
        self._wanted = True
        with self._lock:
            return self._builder
