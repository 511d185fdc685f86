"""One writer for a folder, by ``flock`` on a file held open for life.

``flock`` and not ``lockf``: closing any other descriptor of the file would silently drop a
``lockf``. The holder's pid is in the file for the message to whoever comes second; the lock itself
is in the kernel and goes with the process, so a stale file locks nobody out.
"""

from __future__ import annotations

import fcntl
import os

from quiver.errors import LockedError, StorageError

__all__ = ["FolderLock"]

_PID_BYTES_MAX = 20


class FolderLock:
    """A held lock on an open descriptor."""

    def __init__(self, descriptor: int, place: str, *, wait: bool, announced: bool = True) -> None:
        """Lock the descriptor and take it over; closed again if the lock is refused.

        If it is ``announced`` our pid is written to the file.
        """
        self._descriptor = descriptor
        self._pid = os.getpid()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if announced:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError as error:
            pid = _read_pid(descriptor)
            self.release()
            raise LockedError(
                f"{os.path.dirname(place)} is being written by process {pid or 'unknown'}",
                pid=pid,
                hint="close that writer first; readers need no lock: quiver.scan(path)",
            ) from error
        except OSError as error:
            self.release()
            raise StorageError(
                f"cannot lock {place}: {error.strerror}",
                path=place,
                errno=error.errno or 0,
                hint="the file system must offer flock and have room for a few bytes",
            ) from error

    def release(self) -> None:
        """Give the lock up; in a forked child only the copy of the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if self._pid == os.getpid():
                # A child forked meanwhile has the descriptor too, at least until its exec is done.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)


def _read_pid(descriptor: int) -> int:
    text = os.pread(descriptor, _PID_BYTES_MAX, 0).strip()
    return int(text) if text.isdigit() else 0
