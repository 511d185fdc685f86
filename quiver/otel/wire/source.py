"""The bytes that are read: padded, so that vectors may look a little past the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quiver.errors import InputError

__all__ = [
    "BYTES_MAX",
    "Flags",
    "Ints",
    "Longs",
    "Octets",
    "Ranges",
    "Source",
    "malformed",
    "whole",
]

Ints: TypeAlias = NDArray[np.int64]
Longs: TypeAlias = NDArray[np.uint64]
Octets: TypeAlias = NDArray[np.uint8]
Flags: TypeAlias = NDArray[np.bool_]

BYTES_MAX: Final = (1 << 31) - 64
"""How long a message may be: offsets of Arrow's strings have 32 bits, as lengths of protobuf do."""

_PADDING: Final = bytes(32)


class Source:
    """A message as bytes, as a vector, and as vectors of the words that begin at each byte."""

    __slots__ = ("buffer", "data", "octets", "size", "words32", "words64")

    def __init__(self, message: bytes | bytearray | memoryview) -> None:
        """Copy the message once; raises InputError if it is too long to be one."""
        self.size = memoryview(message).nbytes
        if self.size > BYTES_MAX:
            raise InputError(f"a message of {self.size} bytes; at most {BYTES_MAX} can be read")
        self.data = b"".join((message, _PADDING))
        self.octets = np.frombuffer(self.data, np.uint8)
        self.buffer = pa.py_buffer(self.data)
        count = len(self.data) - 8
        self.words64: Longs = np.ndarray((count,), "<u8", self.data, strides=(1,))
        self.words32 = np.ndarray((count,), "<u4", self.data, strides=(1,))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of bytes, half open, ascending; each with the number of the message it is of.

    Numbers ascend too and may repeat: a message that came in several parts is all of them.
    """

    owner: Ints
    start: Ints
    end: Ints

    @property
    def size(self) -> int:
        """How many ranges there are."""
        return int(self.owner.size)

    def each_its_own(self) -> Ranges:
        """Give each range a number of its own: every one is a message."""
        return Ranges(np.arange(self.owner.size), self.start, self.end)


def whole(source: Source) -> Ranges:
    """Give the one range that is the whole message."""
    return Ranges(np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, source.size))


def malformed(offset: int, what: str) -> InputError:
    """Make the error of bytes that are no protobuf."""
    return InputError(f"not a protobuf message: at byte {offset}, {what}")
