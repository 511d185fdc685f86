"""Room that is taken in advance, so that a full disk can be emptied.

A store with a size cap has a file ``reserve`` in each core's folder, as large as a segment and some
acks. When the disk refuses a segment or an outcome for lack of room the file gives up that part and
the act is tried again. Appends are refused until it is whole; each tick makes it longer while there
is room.
"""

from __future__ import annotations

from typing import Final

import blake3

from quiver.config import Config
from quiver.disk import FILE_MODE, Disk, remove
from quiver.errors import CapacityError, MissingError

__all__ = ["RESERVE_NAME", "Reserve", "reserve_bytes"]

RESERVE_NAME: Final = "reserve"
_PIECE_BYTES: Final = 1 << 20
_BLOCK: Final = 4096
_ACKS_BYTES: Final = 8 * _BLOCK
"""What a segment never takes."""
_LENT_BYTES: Final = 2 * _BLOCK
"""What is lent beyond what outcomes take: they seldom begin with a block."""


def reserve_bytes(config: Config) -> int:
    """Give how much is kept: a segment of the target size, what its tables take, a few acks."""
    target = config.segment.target_size
    return -(-(target + target // 8 + 2 * _BLOCK) // _BLOCK) * _BLOCK + _ACKS_BYTES


def _filling(offset: int, most: int) -> bytes:
    """Give bytes that no file system can compress or has already: zeros would keep no room."""
    return blake3.blake3(b"quiver reserve").digest(length=min(most, _PIECE_BYTES), seek=offset)


class Reserve:
    """The file of one core. Called with the core's lock held."""

    def __init__(self, disk: Disk, folder: str, target_bytes: int) -> None:
        """Take what is there; ``fill`` makes it whole."""
        self.target_bytes = target_bytes
        self._disk, self._folder = disk, folder
        self._path = f"{folder}/{RESERVE_NAME}"
        found = disk.stat(self._path)
        # A file with holes, a copy for instance, has no room in it.
        self.held_bytes = 0 if found is None else min(found.size, found.allocated)

    @property
    def is_short(self) -> bool:
        """Whether it is in use, or there was no room for all of it."""
        return self.held_bytes < self.target_bytes

    def trim(self) -> None:
        """Give back what is more than is kept now: segments may have been larger before."""
        if self.held_bytes > self.target_bytes:
            self._cut(self.target_bytes)

    def fill(self) -> bool:
        """Make it as long as it is to be, or as the disk lets it; whether it is whole."""
        if not self.is_short:
            return True
        try:
            self._grow()
        except CapacityError:
            return False
        return True

    def _grow(self) -> None:
        if self.held_bytes == 0:
            remove(self._disk, self._path)
            file = self._disk.create(self._path, mode=FILE_MODE)
        else:
            file = self._disk.open(self._path, writable=True)
        try:
            while self.is_short:
                piece = _filling(self.held_bytes, self.target_bytes - self.held_bytes)
                file.write(self.held_bytes, piece)
                self.held_bytes += len(piece)
            file.sync()
        except CapacityError:
            # What did fit has taken its room all the same, and must be there to be lent.
            found = self._disk.stat(self._path)
            taken = 0 if found is None else min(found.size, found.allocated)
            self.held_bytes = min(taken, self.target_bytes)
            raise
        finally:
            file.close()

    def lend_to_segment(self) -> bool:
        """Give the room of a segment to the disk; False if there is none left."""
        return self._cut(_ACKS_BYTES)

    def lend_to_acks(self, byte_count: int) -> bool:
        """Give the room of so many bytes of outcomes to the disk; False if there is none left."""
        return self._cut(max(self.held_bytes - byte_count - _LENT_BYTES, 0))

    def _cut(self, size: int) -> bool:
        if self.held_bytes <= size:
            return False
        try:
            file = self._disk.open(self._path, writable=True)
        except MissingError:  # Somebody who looked for room took it away.
            self.held_bytes = 0
            return False
        try:
            file.truncate(size)
        finally:
            file.close()
        self.held_bytes = size
        return True
