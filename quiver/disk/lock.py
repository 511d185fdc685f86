"""One writer for a folder, by ``flock`` on a file held open for life.

``flock`` and not ``lockf``: closing any other descriptor of the file would silently drop a
``lockf``. The holder's pid is in the file for the message to whoever comes second; the lock itself
is in the kernel and goes with the process, so a stale file locks nobody out. A forked child has the
descriptor as well and would keep the lock when its parent is killed, so it lets go of it at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from typing import Final

from quiver.errors import LockedError, StorageError

__all__ = ["FolderLock"]

_PID_BYTES_MAX = 20
_FULL: Final = {errno.ENOSPC, errno.EDQUOT}


class FolderLock:
    """A held lock on an open descriptor."""

    def __init__(self, descriptor: int, place: str, *, wait: bool, announced: bool = True) -> None:
        """Lock the descriptor and take it over; closed again if the lock is refused.

        If it is ``announced`` our pid is written to the file.
        """
        self._descriptor = descriptor
        self._pid = os.getpid()
        _held.add(self)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if announced:
                _announce(descriptor)
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
                hint="the file system must offer flock",
            ) from error
        except BaseException:  # Whoever waited was interrupted, maybe with the lock in hand.
            self.release()
            raise

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


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """Close what a forked child inherited: the lock is its parent's, and goes with that."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


def _announce(descriptor: int) -> None:
    """Write our pid to the file; on a full disk nobody's stays there, for the lock holds anyway."""
    text = b"%d\n" % os.getpid()
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
    except OSError as error:
        if error.errno not in _FULL:
            raise


def _read_pid(descriptor: int) -> int:
    text = os.pread(descriptor, _PID_BYTES_MAX, 0).strip()
    return int(text) if text.isdigit() else 0
