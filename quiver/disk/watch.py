"""Wait until something changes in one of some folders.

By inotify on a folder of this machine; by comparing listings, a few times a second, on any other
disk and where the system gives no inotify (its limits are for all processes of a user together).

What counts is that a name appears, goes, or leads to a file that was written to and closed. Bytes
that go into a file which stays open are seen by comparing alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Iterable, Sequence
from time import monotonic
from types import TracebackType
from typing import Final, Self, TypeAlias

from quiver.disk.calls import open_inotify, watch_folder
from quiver.disk.local import LocalDisk
from quiver.disk.vfs import Disk
from quiver.errors import MissingError, StorageError

__all__ = ["EVERY", "Watch"]

EVERY: Final = 0.25
"""Seconds between two listings, where they are compared."""

_CLOSED_AFTER_WRITE: Final = 0x008
_MOVED_FROM: Final = 0x040
_MOVED_TO: Final = 0x080
_CREATED: Final = 0x100
_DELETED: Final = 0x200
_SELF: Final = 0x400 | 0x800  # The folder itself was deleted, or has another name.
_NAMES: Final = _CREATED | _DELETED | _MOVED_FROM | _MOVED_TO | _SELF
_ALL: Final = _NAMES | _CLOSED_AFTER_WRITE

_READ_BYTES: Final = 1 << 16
_READS_MAX: Final = 64
_WAIT_MAX: Final = 3600.0

_Seen: TypeAlias = tuple[tuple[str, bool, int, int, int], ...] | str | None


class Watch:
    """Tells that something may have changed in ``folders`` of a disk since it was made.

    One thread waits, any others may wake it. A folder that is not there yet is waited for: what
    happens in it counts from the moment at which it is made. Look at the folders after making this,
    and again each time that ``wait`` gives True: then no change is missed.
    """

    def __init__(self, disk: Disk, folders: Iterable[str], *, every: float = EVERY) -> None:
        """Begin to watch; ``every`` is in seconds, and for comparing alone."""
        self._disk = disk
        self._folders = list(folders)
        self._every = every
        self._lock = threading.RLock()  # A signal may come while it is held, and wake.
        self._closed = self._stopped = self._woken = self._released = False
        self._waiting = 0
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._bell, False)
        self._ready = select.poll()
        self._ready.register(self._ear, select.POLLIN)
        self._listing: _Listing | None = None
        self._inotify = _begin(disk, self._folders)
        if self._inotify is None:
            self._listing = _Listing(disk, self._folders)
        else:
            self._ready.register(self._inotify.descriptor, select.POLLIN)

    @property
    def is_polling(self) -> bool:
        """Whether listings are compared, for want of inotify."""
        return self._inotify is None

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def wait(self, timeout: float | None = None) -> bool:
        """Return True once something may have changed or ``wake`` was called.

        False if ``timeout``, in seconds, passes first, and for ever once this is stopped. What
        happened since the last True, or since this was made, counts.
        """
        limit = None if timeout is None else monotonic() + timeout
        with self._lock:
            if self._stopped:
                return False
            self._waiting += 1
        try:
            return self._wait(limit)
        finally:
            with self._lock:
                self._waiting -= 1
                if self._closed:
                    self._release()

    def wake(self) -> None:
        """Let a wait end at once, or the next one; from any thread, also out of a signal."""
        with self._lock:
            if not (self._woken or self._released):
                self._woken = True
                os.write(self._bell, b"\0")

    def stop(self) -> None:
        """Wake whoever waits, and let nobody wait again; what is held is let go of by ``close``.

        Of inotify that takes the system up to a fiftieth of a second.
        """
        with self._lock:
            self.wake()
            self._stopped = True

    def close(self) -> None:
        """Watch no more and wake whoever waits; a second call does nothing."""
        with self._lock:
            self.stop()
            self._closed = True
            if not self._waiting:  # Else whoever waits lets go of what it waits on.
                self._release()

    def __enter__(self) -> Self:
        """Give the watch itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _wait(self, limit: float | None) -> bool:
        rest = 0.0 if self.is_polling else _rest(limit)
        while True:
            ready = {descriptor for descriptor, _ in self._ready.poll(rest * 1000)}
            with self._lock:
                if self._stopped:
                    return False
                if self._woken:
                    os.read(self._ear, 1)
                    self._woken = False
                    return True
            if self._inotify is not None:
                if self._inotify.descriptor in ready:
                    self._take_events(self._inotify)
                    return True
            elif self._listing is not None and self._listing.has_changed():
                return True
            rest = _rest(limit)
            if not rest:
                return False
            if self.is_polling:
                rest = min(rest, self._every)

    def _take_events(self, inotify: _Inotify) -> None:
        """Empty the queue and watch what is there by now; compare listings if that is refused."""
        inotify.drain()
        if inotify.arm():
            return
        self._listing = _Listing(self._disk, self._folders)
        self._ready.unregister(inotify.descriptor)
        with self._lock:
            self._inotify = None
            inotify.close()

    def _release(self) -> None:
        if self._released:
            return
        self._released = True
        os.close(self._ear)
        os.close(self._bell)
        if self._inotify is not None:
            self._inotify.close()


def _rest(limit: float | None) -> float:
    """How many seconds to wait at a time."""
    return _WAIT_MAX if limit is None else min(max(limit - monotonic(), 0.0), _WAIT_MAX)


def _begin(disk: Disk, folders: Sequence[str]) -> _Inotify | None:
    """Watch folders by inotify; None if that cannot be."""
    if not isinstance(disk, LocalDisk):
        return None
    try:
        descriptor = open_inotify()
    except OSError:
        return None
    inotify = _Inotify(descriptor, [_line(disk, folder) for folder in folders])
    if inotify.arm():
        return inotify
    inotify.close()
    return None


def _line(disk: LocalDisk, folder: str) -> list[str]:
    """Give the places of a folder and of all above it, up to the root of the disk."""
    names = folder.split("/") if folder else []
    return [disk.locate("/".join(names[:count])) for count in range(len(names), -1, -1)]


class _Inotify:
    """A descriptor of inotify and the folders that it is for, each with those above it.

    The nearest folder that is there is watched for all that happens in it, and those above for
    names: what was renamed, or deleted while it was open, tells of the wrong place or of nothing.
    """

    def __init__(self, descriptor: int, lines: list[list[str]]) -> None:
        self.descriptor = descriptor
        self._lines = lines

    def arm(self) -> bool:
        """Watch what is there now; False if the system refuses, or nothing is there."""
        before: list[int] = []
        try:
            # A folder made after it was found missing, but before the one above was watched, is
            # found by looking a second time.
            while (nearest := [self._watch_nearest(line) for line in self._lines]) != before:
                before = nearest
            inside = {line[at] for line, at in zip(self._lines, nearest, strict=True)}
            for line, at in zip(self._lines, nearest, strict=True):
                for place in line[at + 1 :]:
                    if place not in inside:
                        self._watch(place, _NAMES)
        except OSError:
            return False
        return True

    def _watch_nearest(self, line: list[str]) -> int:
        for at, place in enumerate(line):
            if self._watch(place, _ALL):
                return at
        raise FileNotFoundError(line[-1])

    def _watch(self, place: str, mask: int) -> bool:
        """Watch one folder; False if it is not there."""
        try:
            watch_folder(self.descriptor, place, mask)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def drain(self) -> None:
        """Take what has been told: that it was something is all that counts, too much included."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READS_MAX):  # Under a flood the rest is for the next wait.
                os.read(self.descriptor, _READ_BYTES)

    def close(self) -> None:
        """Let go of the descriptor."""
        os.close(self.descriptor)


class _Listing:
    """What was in some folders when somebody last looked."""

    def __init__(self, disk: Disk, folders: Sequence[str]) -> None:
        self._disk = disk
        self._folders = folders
        self._seen = self._look()

    def has_changed(self) -> bool:
        """Look again; True if anything is different."""
        seen, self._seen = self._seen, self._look()
        return seen != self._seen

    def _look(self) -> list[_Seen]:
        return [self._look_at(folder) for folder in self._folders]

    def _look_at(self, folder: str) -> _Seen:
        try:
            found = self._disk.list_dir(folder)
        except MissingError:
            return None
        except StorageError as error:
            return str(error)
        return tuple((e.name, e.is_file, e.size, e.allocated, e.modified_ns) for e in found)
