"""Whether dictionaries are united while bundles come as fast as they do.

To unite them costs several times as much as to write the bytes: one thread does some 200 MB in a
second. Where appends bring more, they would wait for it, and share the interpreter with it; so a
segment that was filled that fast keeps its streams as they came.
"""

from __future__ import annotations

from typing import Final

from quiver.config import SegmentConfig

__all__ = ["Pace"]

_USUAL: Final = 4.0
"""Nanoseconds that a byte usually takes, until it is known."""
_WORST: Final = 16.0
"""More than that is the disk's doing."""
_SHARE: Final = 2
"""Part of the time in which a segment fills that may go into uniting it."""
_FEW_BYTES: Final = 1 << 20
"""Of fewer nobody can say how fast they come."""
_SMALL_BYTES: Final = 8 << 20
"""Whatever is below that is united in no time."""
_MEMORY: Final = 8


class Pace:
    """How long it takes to unite a byte, and what follows. Not safe for several threads at once."""

    def __init__(self, config: SegmentConfig) -> None:
        """Start from what is usual."""
        self._how = config.dictionaries
        self._unite_ns = _USUAL

    def hurries(self, byte_count: int, filled_ns: int) -> bool:
        """Whether so many bytes came too fast, in that time, to be united as fast."""
        if self._how != "auto":
            return self._how == "keep"
        return byte_count >= _FEW_BYTES and self._unite_ns * byte_count * _SHARE > filled_ns

    def keeps(self, byte_count: int, filled_ns: int) -> bool:
        """Whether a segment of so many bytes keeps its streams as they came."""
        if self._how != "auto":
            return self._how == "keep"
        kept = byte_count >= _SMALL_BYTES and self.hurries(byte_count, filled_ns)
        if kept:  # One that took very long is forgotten by and by.
            self._unite_ns += (_USUAL - self._unite_ns) / _MEMORY
        return kept

    def note(self, byte_count: int, took_ns: int) -> None:
        """Learn how long a united segment took."""
        if byte_count >= _SMALL_BYTES:
            self._unite_ns = min(took_ns / byte_count, _WORST)
