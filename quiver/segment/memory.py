"""A segment that is in memory and in no file: it came over a network, say, out of a batch."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Bytes, Stat
from quiver.segment.reader import SegmentReader

__all__ = ["open_bytes"]

_ALIGNMENT: Final = 8
"""Values of eight bytes have to lie at multiples of that."""
_DEFAULT_LIMITS: Final = LimitsConfig().for_reading()


def open_bytes(
    data: Bytes, *, place: str, limits: LimitsConfig = _DEFAULT_LIMITS, lazy: bool = False
) -> SegmentReader:
    """Read a whole segment file that is in memory, checked as one on a disk is.

    Batches are views of ``data``, which must never change; they keep it alive. Only if it does not
    begin at a multiple of eight it is copied, once. ``place`` names it in errors. ``lazy`` is that
    of ``SegmentReader.open``, and so is what this raises.
    """
    reader = SegmentReader(_Nowhere(place), "", _aligned(data), limits=limits)
    if not lazy:
        _ = reader.manifest
    return reader


def _aligned(data: Bytes) -> memoryview:
    buffer = pa.py_buffer(data)
    if buffer.address % _ALIGNMENT:
        copy = pa.allocate_buffer(buffer.size)
        memoryview(copy)[:] = memoryview(buffer)
        buffer = copy
    return memoryview(buffer).cast("B").toreadonly()


class _Nowhere:
    """What stands for the disk of a segment that is on none."""

    def __init__(self, place: str) -> None:
        self._place = place

    def locate(self, path: str) -> str:  # noqa: ARG002
        """Give the place, for messages."""
        return self._place

    def stat(self, path: str) -> Stat | None:  # noqa: ARG002
        """Say that there is no file."""
        return None
