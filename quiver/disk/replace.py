"""Write a small file so that a reader, or the next start, sees all of the old or all of the new."""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Iterable, Iterator
from typing import Final

from quiver.disk.vfs import FILE_MODE, Bytes, Disk, File
from quiver.errors import MissingError, QuiverError

__all__ = ["TEMPORARY", "is_temporary", "remove", "replace", "write_new"]

TEMPORARY = ".tmp"
"""How the names of unfinished files end; recovery deletes those that it knows."""


_PIECE: Final = 4 << 20
"""Bytes of a new file that one sync has to write, about."""


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that was never finished."""
    return name.endswith(TEMPORARY)


def remove(disk: Disk, path: str) -> None:
    """Remove a name; nothing happens if somebody did it before."""
    with contextlib.suppress(MissingError):
        disk.unlink(path)


def replace(disk: Disk, path: str, data: Bytes) -> None:
    """Make ``data`` the content of ``path``; when this returns it survives a power cut."""
    write_new(disk, path, [data], mode=FILE_MODE)


def _pieces(parts: Iterable[Bytes]) -> Iterator[memoryview]:
    """Give the bytes of parts in pieces of which all but the last have the same round size.

    Small writes, or such that end in the middle of a page, cost several times as much as to copy
    what they write. A piece may be overwritten once the next one is asked for.
    """
    begun = bytearray()
    room: memoryview | None = None
    filled = 0
    for part in parts:
        rest = memoryview(part).cast("B")
        while rest:
            if not filled and len(rest) >= _PIECE:
                yield rest[:_PIECE]
                rest = rest[_PIECE:]
                continue
            piece, rest = rest[: _PIECE - filled], rest[_PIECE - filled :]
            if room is None:
                begun += piece
            else:
                room[filled : filled + len(piece)] = piece
            filled += len(piece)
            if filled == _PIECE:
                room = memoryview(begun) if room is None else room
                yield room
                filled = 0
    if filled:
        yield (memoryview(begun) if room is None else room)[:filled]


class _Syncing:
    """Syncs of one file, of which each may go on while the next piece is written."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def _sync(self) -> None:
        try:
            self._file.sync()
        except BaseException as error:  # noqa: BLE001 Raised by ``wait``.
            self._failure = error

    def begin(self) -> None:
        """Sync what was written so far, beside whatever comes next if there can be a thread."""
        self.wait()
        thread = threading.Thread(target=self._sync, name="quiver-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # There are too many, or the interpreter is about to end.
            self._file.sync()
        else:
            self._thread = thread

    def wait(self) -> None:
        """Return once it is done; raises what it raised."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def write_new(disk: Disk, path: str, parts: Iterable[Bytes], *, mode: int) -> int:
    """Write ``parts``, one after the other, as the file ``path``: temporary, sync, rename, sync.

    Gives its size. A file that has the name already is replaced in one step. If anything fails
    before the rename the temporary is removed, as far as the disk allows; the name is as it was.
    A large file is synced piece by piece, each while the next one is written: on a journaling file
    system, one long sync would hold up the short ones that others do meanwhile, of the log above
    all.
    """
    temporary = path + TEMPORARY
    if disk.stat(temporary) is not None:
        disk.unlink(temporary)
    file = disk.create(temporary, mode=mode)
    syncing = _Syncing(file)
    offset = 0
    try:
        for piece in _pieces(parts):
            if offset:
                syncing.begin()
            file.write(offset, piece)
            offset += len(piece)
        syncing.wait()
        file.sync()
        file.close()
        disk.rename(temporary, path)
    except QuiverError:
        with contextlib.suppress(QuiverError):
            syncing.wait()
        file.close()
        with contextlib.suppress(QuiverError):  # The first error is the one to tell.
            disk.unlink(temporary)
        raise
    disk.sync_dir(posixpath.dirname(path))
    return offset
