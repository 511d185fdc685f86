"""Memory that may go over a wire."""

from __future__ import annotations

import pyarrow as pa

from quiver.payload import Octets

__all__ = ["arrows_own"]


def arrows_own(*parts: Octets) -> pa.Buffer:
    """Copy bytes, one behind the other, into memory of Arrow's own, as Flight has to be given it.

    Threads of gRPC let go of it when they like, at the end of a process too; to let go of memory of
    Python's they take the interpreter's lock, which has no interpreter any more by then: the
    process ends with a segmentation fault.
    """
    buffer = pa.allocate_buffer(sum(map(len, parts)))
    room, end = memoryview(buffer).cast("B"), 0
    for part in parts:
        begin, end = end, end + len(part)
        if begin < end:
            room[begin:end] = memoryview(part).cast("B")
    return buffer
