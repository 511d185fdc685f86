"""Which messages of an Arrow file are plainly not compressed, seen for all of them at once.

A file of 1,000 small batches is read faster than its messages are followed one by one in Python.
So each step that ``ipc_messages`` takes for one message is taken here for all, as arrays. The
answer goes one way only: what is not plain is looked at there, and there it is refused.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["plain_messages"]

_BLOCK: Final = np.dtype(
    [("offset", "<i8"), ("metadata", "<i4"), ("padding", "<i4"), ("body", "<i8")]
)
_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]

_CONTINUATION: Final = -1
_PREFIX_BYTES: Final = 8
_FILE_START: Final = 8
_VTABLE_HEAD: Final = 4
_KIND_BATCH: Final = 3
_VERSION_5: Final = 4
# The fields of a message, and of a batch, by their place in Message.fbs.
_VERSION, _KIND, _HEADER, _BODY_LENGTH, _CUSTOM = range(5)
_COMPRESSION: Final = 3


def plain_messages(data: memoryview, table: memoryview) -> _Mask:
    """Say of each block of ``table`` whether it is an uncompressed batch in its place.

    That is: it lies inside ``data`` and behind the one before, its own lengths are those of its
    block, and nothing in its metadata says that it is compressed. Only bytes of metadata are read.
    """
    blocks = np.frombuffer(table, _BLOCK)
    if not len(blocks):
        return np.zeros(0, bool)
    return _Walk(data, blocks).plain()


class _Walk:
    """The metadata of all messages, followed in step; a message that fails once is out."""

    def __init__(self, data: memoryview, blocks: Any) -> None:  # noqa: ANN401
        self._bytes = np.frombuffer(data, np.uint8)
        size = len(self._bytes)
        offset, metadata, self._body = (
            blocks[name].astype(np.int64) for name in ("offset", "metadata", "body")
        )
        lengths = np.stack((offset, metadata, self._body))
        inside: _Mask = (lengths >= 0) & (lengths <= size)
        self._ok: _Mask = np.logical_and.reduce(inside, axis=0)  # From here on no sum overflows.
        ends = np.where(self._ok, lengths.sum(axis=0), size + 1)
        behind = np.concatenate(([_FILE_START], ends[:-1]))
        self._ok &= (offset >= behind) & (ends <= size)
        self._start: _Places = offset + _PREFIX_BYTES
        self._end: _Places = offset + metadata
        self._metadata = metadata

    def plain(self) -> _Mask:
        """Follow all of them to where compression would be."""
        lead = self._start - _PREFIX_BYTES
        self._ok &= self._metadata >= _PREFIX_BYTES
        self._ok &= self._read(lead, "<i4", low=lead) == _CONTINUATION
        length = self._read(lead + 4, "<i4", low=lead)
        self._ok &= length == self._metadata - _PREFIX_BYTES
        message = self._start + self._read(self._start, "<u4")
        fields = [self._field(message, number) for number in range(_CUSTOM + 1)]
        self._ok &= (fields[_KIND] > 0) & (self._read(fields[_KIND], "u1") == _KIND_BATCH)
        self._ok &= fields[_BODY_LENGTH] > 0
        self._ok &= self._read(fields[_BODY_LENGTH], "<i8") == self._body
        old = fields[_VERSION] == 0
        old |= self._read(np.where(old, self._start, fields[_VERSION]), "<i2") < _VERSION_5
        self._ok &= (fields[_CUSTOM] == 0) | ~old
        self._ok &= fields[_HEADER] > 0
        batch = fields[_HEADER] + self._read(fields[_HEADER], "<u4")
        self._ok &= self._field(batch, _COMPRESSION) == 0
        return self._ok

    def _field(self, table: _Places, number: int) -> _Places:
        """Find a field of a table of each message; 0 where it has none."""
        vtable = table - self._read(table, "<i4")
        size = self._read(vtable, "<u2")
        entry = _VTABLE_HEAD + 2 * number
        there = size >= entry + 2
        place = self._read(np.where(there, vtable + entry, self._start), "<u2")
        return np.where(there & (place > 0), table + place, 0)

    def _read(self, places: _Places, kind: str, *, low: _Places | None = None) -> _Places:
        """Read a number of each message's metadata; who would read outside of it is out.

        What is read of one that is out means nothing.
        """
        width = np.dtype(kind).itemsize
        self._ok &= (places >= (self._start if low is None else low)) & (
            places + width <= self._end
        )
        safe = np.where(self._ok, places, 0)
        found = self._bytes[safe[:, None] + np.arange(width)]
        return found.view(kind).reshape(-1).astype(np.int64)
