"""A real file system that cannot write some of its blocks: what the kernel does then is no theory.

Its image is a file in a small file system in RAM. ``cramp`` gives the free blocks of the volume
back, which makes them holes of the image, and takes the RAM for them away: a block that was never
written cannot be written any more, while the journal and all that is there already can. The
kernel finds out at writeback, long after ``write`` has returned, as it does on a failing disk.

::

    volume      store | journal | free free free         write() says yes, fdatasync() says no
    image       bytes | bytes   | holes
    RAM         used  | used    | none
"""

from __future__ import annotations

import os
import tempfile
import time
from types import TracebackType
from typing import Final, Self

from quiver.errors import StorageError
from quiver.testing.real.kernel import limit_ram, mount, sync_all, trim, unmount
from quiver.testing.real.volume import KINDS, Kind, Volume

__all__ = ["CrampedVolume"]

_SPARE_BYTES: Final = 1 << 20
_OPTIONS: Final[dict[Kind, str]] = {"ext4": "", "xfs": "allocsize=4k"}
"""XFS would set blocks aside ahead of what is written, and those could be written."""

_SECTOR: Final = 512
_SET_ASIDE_BYTES_MAX: Final = 4 << 20
"""ext4 keeps this much ready for files below 64 KiB; those can still be written."""

_TRIM_SECONDS: Final = 0.002
_TRIM_QUIET: Final = 50
"""After so many looks without a change the trim is over; it knows of more blocks than statvfs."""
_TRIM_SECONDS_MAX: Final = 20.0


class CrampedVolume:
    """A volume whose new blocks can be made to fail. Use it in a ``with`` block, in one thread."""

    def __init__(self, kind: Kind) -> None:
        """Make it, with room for every block."""
        image_bytes = KINDS[kind].image_bytes
        self._ram = tempfile.mkdtemp(prefix="quiver-ram-")
        self._image = os.path.join(self._ram, "image")
        self._limit = image_bytes + _SPARE_BYTES
        self._volume: Volume | None = None
        try:
            mount("tmpfs", self._ram, kind="tmpfs", options=f"size={self._limit},mode=0700")
            image = os.open(self._image, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(image, 0, image_bytes)
                self._volume = Volume(kind, image=image, options=_OPTIONS[kind])
            finally:
                os.close(image)
        except BaseException:
            self.close()
            raise

    @property
    def volume(self) -> Volume:
        """The volume itself."""
        if self._volume is None:
            raise StorageError("the volume is closed", path=self._ram)
        return self._volume

    def cramp(self) -> None:
        """From now on, no block can be written that is free at this moment.

        ext4 has some set aside for files that are smaller than 64 KiB: only larger ones notice.
        """
        sync_all(self.volume.path)
        trim(self.volume.path)
        self._await_holes()
        space = os.statvfs(self._ram)
        limit_ram(self._ram, (space.f_blocks - space.f_bfree) * space.f_frsize)

    def relieve(self) -> None:
        """Let every block be written again."""
        limit_ram(self._ram, self._limit)

    def close(self) -> None:
        """Unmount and let go of everything, whatever state it is in."""
        try:
            if self._volume is not None:
                self.relieve()
                volume, self._volume = self._volume, None
                volume.close()
        finally:
            if os.path.ismount(self._ram):
                unmount(self._ram, detach=True)
            if os.path.isdir(self._ram):
                os.rmdir(self._ram)

    def __enter__(self) -> Self:
        """Give the volume itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; files that are open because of an error do not hide that error."""
        try:
            self.close()
        except StorageError:
            if error is None:
                raise

    def _await_holes(self) -> None:
        """Return once the free blocks are holes of the image: XFS trims while nobody waits."""
        space = os.statvfs(self.volume.path)
        free = space.f_bfree * space.f_frsize - _SET_ASIDE_BYTES_MAX
        most = KINDS[self.volume.kind].image_bytes - free
        deadline = time.monotonic() + _TRIM_SECONDS_MAX
        used, quiet = self._limit, 0
        while used > most or quiet < _TRIM_QUIET:
            if time.monotonic() > deadline:
                text = f"{used - most:,} free bytes are still in the image"
                raise StorageError(text, path=self.volume.path)
            time.sleep(_TRIM_SECONDS)
            before, used = used, os.stat(self._image).st_blocks * _SECTOR
            quiet = quiet + 1 if used == before else 0
