"""What a location lets into its copy: frames of the epoch it promised, each in its place."""

from __future__ import annotations

from typing import NamedTuple

from quiver.errors import FencedError, InputError

__all__ = ["Copy", "Frame", "admit", "promise"]


class Copy(NamedTuple):
    """A location's copy of the open block."""

    epoch: int
    """The greatest one that was promised, durably."""
    length: int
    """Bytes of whole entries."""


class Frame(NamedTuple):
    """Entries on their way down the chain, exactly as they stand in the log."""

    epoch: int
    offset: int
    """Where in the block its first byte belongs."""
    size: int


def admit(copy: Copy, frame: Frame) -> Copy:
    """Give the copy as it is with a frame; raises FencedError or InputError if it may not be.

    To be called under the lock that ``promise`` is called under, and written before that is let go.
    """
    if frame.epoch < copy.epoch:
        raise FencedError(
            f"a frame of epoch {frame.epoch} came to a block of epoch {copy.epoch}",
            epoch=frame.epoch,
            current=copy.epoch,
            hint="another chain took over; read the partition's record and go on from there",
        )
    if frame.epoch > copy.epoch:
        raise InputError(f"a frame of epoch {frame.epoch} came; {copy.epoch} was promised")
    if frame.offset != copy.length or frame.size <= 0:
        raise InputError(
            f"a frame of {frame.size} bytes for byte {frame.offset} came to a block of "
            f"{copy.length} bytes",
            hint="nothing is skipped or written twice; send on from its end",
        )
    return Copy(copy.epoch, copy.length + frame.size)


def promise(copy: Copy, epoch: int) -> Copy:
    """Give the copy as it is once no smaller epoch than ``epoch`` is let in.

    The caller makes that durable before it answers. The same epoch may be promised again, since an
    answer can be lost; a smaller one raises FencedError.
    """
    if epoch < copy.epoch:
        raise FencedError(
            f"epoch {epoch} was to be promised, and {copy.epoch} is",
            epoch=epoch,
            current=copy.epoch,
            hint="somebody else seals",
        )
    return Copy(epoch, copy.length)
