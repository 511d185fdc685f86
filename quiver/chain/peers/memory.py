"""Memory that may go over a wire, and memory that nobody is to keep."""

from __future__ import annotations

import pyarrow as pa

from quiver.payload import Octets

__all__ = ["arrows_own", "without_frames"]


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


def without_frames(error: BaseException) -> None:
    """Have an error that is kept let go of the calls that it came through, and of what they hold.

    A frame of entries that was refused would stay as long as anybody may ask why it was.
    """
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        one.__traceback__ = None
        seen.add(id(one))
        others = (one.__cause__, one.__context__)
        left += [other for other in others if other is not None and id(other) not in seen]
