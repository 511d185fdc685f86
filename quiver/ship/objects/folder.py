"""A bucket in a folder of this machine: many processes and threads, each put durable.

An object is a file under its key. What is not finished yet lies beside it under a name of its own,
which no key has; what a process that died left of that is removed a day later.
Tags are made of the bytes alone, so a put of equal bytes keeps the tag.

A new name is seen before it survives a power cut. Whoever reads an object therefore waits until
its folder is on the disk: nobody acts on a manifest that may be gone after the next start.
"""

from __future__ import annotations

import posixpath
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import blake3

from quiver.clock import Clock, SystemClock
from quiver.disk import (
    Bytes,
    Disk,
    LocalDisk,
    Stat,
    folder_path,
    is_aside,
    remove,
    remove_forgotten,
    write_aside,
)
from quiver.errors import InputError, MissingError, QuiverError, StorageError
from quiver.ship.objects.bucket import Conflict, Found, Listed, Tag, UnclearError
from quiver.ship.objects.keys import check_base, full_key, parts_of, pieces_of

__all__ = ["WORK", "FolderBucket"]

WORK: Final = ".bucket"
"""Where the lock is; no key begins with it."""

_LOCK: Final = f"{WORK}/lock"
_MS: Final = 1_000_000


class FolderBucket:
    """Objects in a folder, made by the first put. Can be pickled."""

    def __init__(
        self,
        folder: str,
        path: str = "",
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Take a folder, and a path in it; ``disk`` is for tests, and stands for the folder."""
        self._folder = folder_path(folder)
        self._base = check_base(path)
        self._clock = clock or SystemClock()
        self._disk = disk
        self._opened: LocalDisk | None = None
        self._mutex = threading.Lock()
        self._is_ready = False
        self._settled: set[str] = set()

    @property
    def place(self) -> str:
        """Its path."""
        return posixpath.join(self._folder, self._base).rstrip("/")

    @property
    def base(self) -> str:
        """Where its keys begin below the folder."""
        return self._base

    def get(self, key: str) -> Found:
        """Read an object whole."""
        full = self._full(key)
        with self._missing(full):
            disk = self._look()
            data = self._read(disk, full)
            disk.sync_dir(posixpath.dirname(full))
        return _Read(data)

    def peek(self, key: str) -> bytes:
        """Read an object whole as it is just now: a power cut may bring back the one before.

        Copied and not mapped: another machine may replace it, and a map of its file is gone then.
        """
        full = self._full(key)
        with self._missing(full):
            return self._read(self._look(), full)

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        """Read an object unless it still is the one that ``tag`` names: then None."""
        data = self.get(key).data
        now = _tag([data])
        return None if now == tag else Found(data, now)

    def read(self, key: str) -> Bytes:
        """Map an object, without a tag; it stays readable when it is replaced or deleted."""
        full = self._full(key)
        with self._missing(full):
            disk = self._look()
            self._refuse_links(disk, posixpath.dirname(full))
            return disk.map(full)

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        """Put an object, whatever was there; parts are joined."""
        parts = parts_of(data)
        self.write(key, parts)
        return _tag(parts)

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        """Put an object whose tag nobody wants: it is not made."""
        full = self._full(key)
        parts = pieces_of(data) if isinstance(data, Iterator) else parts_of(data)
        with self._put_there(full):
            disk = self._prepare(posixpath.dirname(full))
            file = write_aside(disk, posixpath.dirname(full), parts)
            try:
                with self._locked(disk):
                    file.finish(full)
            except BaseException:
                file.discard()
                raise
        self._settle(disk, full)

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        """Put an object if ``tag`` names what is there; None: only if nothing is. Or Conflict."""
        del within  # There is no server to wait for.
        full = self._full(key)
        parts = parts_of(data)
        with self._put_there(full):
            disk = self._prepare(posixpath.dirname(full))
            with self._locked(disk):
                if self._current(disk, full) != tag:
                    text = f"{full} in {self.place} is not the one that was read"
                    raise Conflict(text, path=full)
                file = write_aside(disk, posixpath.dirname(full), parts)
                try:
                    file.finish(full)
                except BaseException:
                    file.discard()
                    raise
        self._settle(disk, full)
        return _tag(parts)

    def list(self, prefix: str) -> Iterator[Listed]:
        """Go through objects whose keys begin with ``prefix``, in no promised order."""
        try:
            disk = self._look()
        except MissingError:
            return
        begin = self._base + prefix
        folders = [posixpath.dirname(begin)]
        self._refuse_links(disk, folders[0])
        while folders:
            folder = folders.pop()
            for entry in _entries(disk, folder):
                path = posixpath.join(folder, entry.name)
                if entry.is_file:
                    if path.startswith(begin) and not is_aside(entry.name):
                        key = path[len(self._base) :]
                        yield Listed(key, entry.size, entry.modified_ns // _MS)
                elif not entry.is_link and path != WORK and _leads_on(path, begin):
                    folders.append(path)

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete objects and return the keys that could not be."""
        full = {key: self._full(key) for key in keys}
        try:
            disk = self._look()
        except MissingError:
            return []
        if disk.stat(WORK) is None:  # Nobody has ever put anything here: there is no lock to take.
            return [key for key in keys if disk.stat(full[key]) is not None]
        left = []
        with self._locked(disk):
            for key, path in full.items():
                try:
                    self._refuse_links(disk, posixpath.dirname(path))
                    remove(disk, path)
                except QuiverError:
                    left.append(key)
        return left

    def _look(self) -> Disk:
        """Give the folder; raises MissingError if it is not there."""
        with self._mutex:
            if self._disk is None:
                self._disk = self._open(create=False)
            return self._disk

    def _open(self, *, create: bool) -> LocalDisk:
        disk = self._opened = LocalDisk(self._folder, create=create)
        weakref.finalize(self, disk.close).atexit = False
        return disk

    def _prepare(self, folder: str) -> Disk:
        """Give the folder, made if need be, with all that a put to ``folder`` needs in it."""
        with self._mutex:
            if self._disk is None:
                self._disk = self._open(create=True)
            disk = self._disk
            if not self._is_ready:
                self._make(disk, WORK)
                self._tidy(disk, "")
                self._is_ready = True
            self._refuse_links(disk, folder)
            self._make(disk, folder)
        return disk

    def _make(self, disk: Disk, folder: str) -> None:
        """Make a folder and those above it; somebody who died may not have come to sync them."""
        path = ""
        for name in filter(None, folder.split("/")):
            parent, path = path, posixpath.join(path, name)
            if path not in self._settled:
                disk.make_dir(path)
                disk.sync_dir(parent)
                self._tidy(disk, path)
                self._settled.add(path)

    def _tidy(self, disk: Disk, folder: str) -> None:
        remove_forgotten(disk, folder, now_ns=self._clock.wall_ns())

    @contextmanager
    def _locked(self, disk: Disk) -> Iterator[None]:
        lock = disk.lock(_LOCK, wait=True)
        try:
            yield
        finally:
            lock.release()

    def _full(self, key: str) -> str:
        full = full_key(self._base, key)
        if full.partition("/")[0] == WORK or is_aside(posixpath.basename(full)):
            raise InputError(
                f"{key!r} is no key of an object in a folder", hint="the bucket has such names"
            )
        return full

    def _read(self, disk: Disk, full: str) -> bytes:
        self._refuse_links(disk, posixpath.dirname(full))
        file = disk.open(full)
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    @contextmanager
    def _missing(self, full: str) -> Iterator[None]:
        """Say of what is not there that it is an object."""
        try:
            yield
        except MissingError as error:
            self._look_anew()
            raise MissingError(f"there is no {full} in {self.place}", path=full) from error

    def _current(self, disk: Disk, full: str) -> Tag | None:
        try:
            return _tag([self._read(disk, full)])
        except MissingError:
            return None

    @contextmanager
    def _put_there(self, full: str) -> Iterator[None]:
        """Put something; that something is missing then does not mean an object."""
        try:
            yield
        except MissingError as error:
            with self._mutex:
                self._settled.clear()
                self._is_ready = False
            self._look_anew()
            raise StorageError(
                f"cannot put {full} in {self.place}: somebody removed the folder, or the new file",
                path=full,
                hint="the next put makes the folder again",
            ) from error

    def _look_anew(self) -> None:
        """Have the folder opened again, if it is not the one that was opened."""
        with self._mutex:
            if self._opened is None or self._opened.is_there():
                return
            self._disk = self._opened = None  # Others may be at it: it closes with the bucket.
            self._settled.clear()
            self._is_ready = False

    def _settle(self, disk: Disk, full: str) -> None:
        """Have a new name survive a power cut."""
        try:
            disk.sync_dir(posixpath.dirname(full))
        except QuiverError as error:
            raise UnclearError(
                f"{full} is in {self.place}, but may not be after a power cut", path=full
            ) from error

    def _refuse_links(self, disk: Disk, folder: str) -> None:
        """Refuse a way that leaves the bucket by a link; the disk looks at the name of a file."""
        while folder:
            found = disk.stat(folder)
            if found is not None and found.is_link:
                raise StorageError(
                    f"{disk.locate(folder)} is a link",
                    path=disk.locate(folder),
                    hint="links are not followed inside a bucket",
                )
            folder = posixpath.dirname(folder)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as a path."""
        return FolderBucket, (self._folder, self._base)

    def __repr__(self) -> str:
        """Say which folder it is."""
        return f"FolderBucket({self.place!r})"


class _Read(Found):
    """An object as it was read. Its tag is made when it is asked for: nobody asks for a batch's."""

    __slots__ = ()

    def __init__(self, data: Bytes) -> None:
        object.__setattr__(self, "data", data)

    @property
    def tag(self) -> Tag:
        """Names this state of it."""
        return _tag([self.data])


def _tag(parts: Sequence[Bytes]) -> Tag:
    digest = blake3.blake3()
    for part in parts:
        digest.update(part)
    return str(digest.hexdigest())


def _entries(disk: Disk, folder: str) -> Sequence[Stat]:
    """List a folder; one that is not there, or not there any more, has nothing in it."""
    try:
        return disk.list_dir(folder)
    except MissingError:
        return []


def _leads_on(folder: str, prefix: str) -> bool:
    """Whether keys that begin with ``prefix`` may be in a folder."""
    inside = f"{folder}/"
    return inside.startswith(prefix) or prefix.startswith(inside)
