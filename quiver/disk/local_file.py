"""One open file of the real disk, and what its refusals mean.

Whatever the system says becomes one of our errors here, with the place that it is about.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

from quiver.disk.calls import punch_hole, write_back
from quiver.disk.vfs import Bytes
from quiver.errors import CapacityError, MissingError, QuiverError, StorageError

__all__ = ["LocalFile", "lacks_descriptors", "refused"]

_FULL = {errno.ENOSPC, errno.EDQUOT}
_WRITE_MAX = 1 << 30
_NO_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}


def refused(error: OSError, act: str, path: str) -> QuiverError:
    """Say as one of our errors that the system would not ``act`` on ``path``."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    text = f"cannot {act} {path}: {reason}"
    number = error.errno or 0
    if number in _FULL:
        return CapacityError(text, hint="free space on this file system, then try again")
    if number in (errno.ENOENT, errno.ENOTDIR):
        return MissingError(text, path=path, errno=number)
    hint = ""
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "the store needs a folder that this user can write"
    elif number == errno.ELOOP:
        hint = "links are not followed inside a store"
    return StorageError(text, path=path, errno=number, hint=hint)


def lacks_descriptors(error: QuiverError) -> bool:
    """Whether there was no descriptor for an act: then none of it was done."""
    return isinstance(error, StorageError) and error.errno in (errno.EMFILE, errno.ENFILE)


class LocalFile:
    """One open file of the operating system."""

    __slots__ = ("_descriptor", "_place", "path")

    def __init__(self, descriptor: int, path: str, place: str) -> None:
        self._descriptor = descriptor
        self._place = place
        self.path = path

    def size(self) -> int:
        """How many bytes it has now."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise refused(error, "look at", self._place) from error

    def read(self, offset: int, length: int) -> bytes:
        """Copy bytes ``[offset, offset + length)``; fewer only where the file ends."""
        try:
            data = os.pread(self._descriptor, length, offset)
            while data and len(data) < length:
                more = os.pread(self._descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise refused(error, "read", self._place) from error
        return data

    def read_into(self, offset: int, target: memoryview) -> int:
        """Read as many bytes as ``target`` has room for, or the file has; how many those were."""
        done = 0
        try:
            while done < len(target):
                count = os.preadv(self._descriptor, [target[done:]], offset + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise refused(error, "read", self._place) from error
        return done

    def write(self, offset: int, data: Bytes) -> None:
        """Write all of ``data`` at ``offset``, or raise with any prefix of it written."""
        try:
            # Nearly always all is done by one call, and a view of it takes longer than that.
            if type(data) is bytes and len(data) <= _WRITE_MAX:
                written = os.pwrite(self._descriptor, data, offset)
                if written == len(data):
                    return
            rest = memoryview(data).cast("B")
            while rest:
                written = os.pwrite(self._descriptor, rest[:_WRITE_MAX], offset)
                offset += written
                rest = rest[written:]
        except OSError as error:
            raise refused(error, "write", self._place) from error

    def write_parts(self, offset: int, parts: Sequence[Bytes]) -> int:
        """Write bytes one after the other as ``write`` does, without a copy; give how many."""
        try:
            written = os.pwritev(self._descriptor, parts, offset)
        except OSError as error:
            raise refused(error, "write", self._place) from error
        byte_count = sum(map(len, parts))
        if written < byte_count:
            self.write(offset + written, memoryview(b"".join(parts))[written:])
        return byte_count

    def fetch(self, offset: int, length: int) -> None:
        """Ask the system to begin to read a range; whether it does is its own affair."""
        advise = getattr(os, "posix_fadvise", None)  # Linux has it.
        if advise is not None:
            with contextlib.suppress(OSError):
                advise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def copy_from(self, source: LocalFile, *, offset: int, length: int, at: int) -> int:
        """Copy bytes of another file to ``at`` inside the system; give how many it did.

        Fewer than ``length`` where the system cannot, or the source ends.
        """
        done = 0
        copy = getattr(os, "copy_file_range", None)  # Linux has it.
        while copy is not None and done < length:
            try:
                count = copy(
                    source._descriptor, self._descriptor, length - done, offset + done, at + done
                )
            except OSError as error:
                if error.errno in _NO_COPY:
                    break
                raise refused(error, "write", self._place) from error
            if count == 0:
                break
            done += count
        return done

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, or grow it with zeros."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise refused(error, "truncate", self._place) from error

    def punch(self, offset: int, length: int) -> bool:
        """Zero a range and give its blocks back; False if this file system cannot."""
        try:
            return punch_hole(self._descriptor, offset, length)
        except OSError as error:
            raise refused(error, "punch a hole in", self._place) from error

    def next_data(self, offset: int) -> int | None:
        """Find the first byte at or after ``offset`` that is not in a hole."""
        try:
            return os.lseek(self._descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno == errno.EINVAL:
                return offset if offset < self.size() else None
            raise refused(error, "seek in", self._place) from error

    def sync(self) -> None:
        """Return once bytes and size survive a power cut (fdatasync)."""
        try:
            if self._descriptor < 0:  # Python makes a ValueError of it.
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise refused(error, "sync", self._place) from error

    def write_back(self, offset: int, length: int, *, wait: bool) -> None:
        """Begin to write a range to the disk, or ``wait`` for it; a sync has less to do then.

        A failure is that of a sync, and the next one may not tell it again.
        """
        try:
            write_back(self._descriptor, offset, length, wait=wait)
        except OSError as error:
            raise refused(error, "sync", self._place) from error

    def settle(self) -> None:
        """Sync, and let the next read come from the disk and not from the page cache."""
        self.sync()
        try:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise refused(error, "drop from memory", self._place) from error

    def close(self) -> None:
        """Let go of the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
