"""A disk that reads another one and keeps every change to itself, to see what work would do.

::

    overlay file   | own block | base | base | hole | own block |
                         |         |
                       spool     the file on the base

Changed blocks are in a spool: in RAM up to a bound, beyond it in a file without a name. What is
not changed is read from the base, which must stand still meanwhile. Nothing here is durable, so
syncs do nothing. One thread at a time.
"""

from __future__ import annotations

import errno
import os
import posixpath
import tempfile
from typing import Final, Literal, NoReturn

from quiver.disk.vfs import FILE_MODE, Bytes, Disk, File, Lock, Stat
from quiver.errors import LockedError, MissingError, StorageError

__all__ = ["Change", "OverlayDisk"]

Change = Literal["made", "changed", "removed"]

_BLOCK: Final = 1 << 16
_SPOOL_BYTES_IN_RAM: Final = 64 << 20


class _Spool:
    """Blocks that are given out once and never taken back."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES_IN_RAM)  # noqa: SIM115
        self._count = 0

    def new(self) -> int:
        self._count += 1
        return self._count - 1

    def read(self, number: int) -> bytearray:
        self._file.seek(number * _BLOCK)
        return bytearray(self._file.read(_BLOCK))

    def write(self, number: int, data: bytearray) -> None:
        self._file.seek(number * _BLOCK)
        self._file.write(data)

    def close(self) -> None:
        self._file.close()


class _Content:
    """The bytes of one changed file: ``blocks`` are its own, None for a hole; all else is base."""

    def __init__(self, spool: _Spool, base: File | None) -> None:
        self._spool = spool
        self._base = base
        self._base_end = 0 if base is None else base.size()
        self.size = self._base_end
        self.blocks: dict[int, int | None] = {}
        self.is_changed = False

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.size)
        parts = []
        while offset < end:
            number, inside = divmod(offset, _BLOCK)
            stop = min(end, (number + 1) * _BLOCK)
            if number in self.blocks:
                parts.append(bytes(self._block(number)[inside : inside + stop - offset]))
            else:
                parts.append(self._from_base(offset, stop - offset))
            offset = stop
        return b"".join(parts)

    def _from_base(self, offset: int, length: int) -> bytes:
        known = min(length, max(self._base_end - offset, 0))
        data = self._base.read(offset, known) if self._base is not None and known else b""
        return data + bytes(length - len(data))

    def _block(self, number: int) -> bytearray:
        if number not in self.blocks:
            return bytearray(self._from_base(number * _BLOCK, _BLOCK))
        place = self.blocks[number]
        return bytearray(_BLOCK) if place is None else self._spool.read(place)

    def write(self, offset: int, data: memoryview) -> None:
        self.is_changed = True
        self.size = max(self.size, offset + len(data))
        while data:
            number, inside = divmod(offset, _BLOCK)
            piece = data[: _BLOCK - inside]
            block = self._block(number)
            block[inside : inside + len(piece)] = piece
            place = self.blocks.get(number)
            self.blocks[number] = place = self._spool.new() if place is None else place
            self._spool.write(place, block)
            offset, data = offset + len(piece), data[len(piece) :]

    def truncate(self, size: int) -> None:
        if size < self.size:
            self._zero(size, min(self.size, -(-size // _BLOCK) * _BLOCK))
            self.blocks = {n: place for n, place in self.blocks.items() if n * _BLOCK < size}
            self._base_end = min(self._base_end, size)
        self.is_changed |= size != self.size
        self.size = size

    def punch(self, offset: int, length: int) -> None:
        end = min(offset + length, self.size)
        first, last = -(-offset // _BLOCK), end // _BLOCK
        if first > last:
            self._zero(offset, end)
            return
        self._zero(offset, first * _BLOCK)
        self._zero(last * _BLOCK, end)
        self.blocks |= dict.fromkeys(range(first, last))
        self.is_changed |= first < last

    def _zero(self, start: int, end: int) -> None:
        if start < end:
            self.write(start, memoryview(bytes(end - start)))

    def next_data(self, offset: int) -> int | None:
        while offset < self.size:
            end = min((offset // _BLOCK + 1) * _BLOCK, self.size)
            found: int | None = offset
            if offset // _BLOCK in self.blocks:
                found = None if self.blocks[offset // _BLOCK] is None else offset
            elif self._base is not None and offset < self._base_end:
                found = self._base.next_data(offset)
            if found is not None and found < end:
                return found
            offset = end
        return None

    def allocated(self) -> int:
        return self.size - _BLOCK * sum(place is None for place in self.blocks.values())


class _OverlayFile:
    """An open file that the overlay has changed, or may."""

    def __init__(self, content: _Content, path: str, place: str, *, writable: bool) -> None:
        self._content: _Content | None = content
        self._writable = writable
        self._place = place
        self.path = path

    def _own(self, *, writable: bool = False) -> _Content:
        if self._content is None or (writable and not self._writable):
            raise StorageError(f"{self._place} is not open for that", errno=errno.EBADF)
        return self._content

    def size(self) -> int:
        return self._own().size

    def read(self, offset: int, length: int) -> bytes:
        return self._own().read(offset, length)

    def write(self, offset: int, data: Bytes) -> None:
        self._own(writable=True).write(offset, memoryview(data).cast("B"))

    def truncate(self, size: int) -> None:
        self._own(writable=True).truncate(size)

    def punch(self, offset: int, length: int) -> bool:
        if length > 0:
            self._own(writable=True).punch(offset, length)
        return length > 0

    def next_data(self, offset: int) -> int | None:
        return self._own().next_data(offset)

    def sync(self) -> None:
        self._own()

    def settle(self) -> None:
        self._own()

    def close(self) -> None:
        self._content = None


class _OverlayLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class OverlayDisk:
    """The files of another disk with changes that nobody else sees."""

    def __init__(self, base: Disk) -> None:
        """Start without a change."""
        self._base = base
        self._spool = _Spool()
        self._files: dict[str, _Content | None] = {}
        self._folders: set[str] = set()
        self._held: set[str] = set()
        self._open: list[File] = []

    def changes(self) -> dict[str, Change]:
        """Say of each file what happened to its name, compared with the base."""
        found: dict[str, Change] = {}
        for path, content in sorted(self._files.items()):
            was_there = self._base.stat(path) is not None
            if content is None:
                if was_there:
                    found[path] = "removed"
            elif not was_there:
                found[path] = "made"
            elif content.is_changed:
                found[path] = "changed"
        return found

    def close(self) -> None:
        """Forget every change."""
        for file in self._open:
            file.close()
        self._spool.close()
        self._files.clear()

    # The Disk protocol.

    def locate(self, path: str) -> str:
        """Give the path on the base."""
        return self._base.locate(path)

    def stat(self, path: str) -> Stat | None:
        """Look at a path; None if there is nothing."""
        name = posixpath.basename(path)
        if path in self._folders:
            return Stat(name, is_file=False, size=0, allocated=0)
        if path not in self._files:
            return self._base.stat(path)
        content = self._files[path]
        if content is None:
            return None
        return Stat(name, is_file=True, size=content.size, allocated=content.allocated())

    def list_dir(self, path: str) -> list[Stat]:
        """Give a folder's entries in order of name."""
        self._need_folder(path, "list")
        names = [*self._files, *self._folders]
        if path not in self._folders:
            names += [f"{path}/{e.name}".lstrip("/") for e in self._base.list_dir(path)]
        inside = sorted({name for name in names if posixpath.dirname(name) == path})
        return [found for name in inside if (found := self.stat(name)) is not None]

    def make_dir(self, path: str) -> None:
        """Make one folder; nothing happens if it is there already."""
        found = self.stat(path)
        if found is not None and found.is_file:
            self._refuse(errno.EEXIST, "make the folder", path)
        self._need_folder(posixpath.dirname(path), "make the folder")
        if found is None:
            self._folders.add(path)

    def create(self, path: str, *, mode: int = FILE_MODE) -> File:  # noqa: ARG002 Nobody else opens it.
        """Make a new file open for reading and writing; raises if the name is taken."""
        self._need_folder(posixpath.dirname(path), "create")
        if self.stat(path) is not None:
            self._refuse(errno.EEXIST, "create", path)
        content = self._files[path] = _Content(self._spool, None)
        content.is_changed = True
        return _OverlayFile(content, path, self.locate(path), writable=True)

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open a regular file that exists."""
        if path not in self._files and not writable:
            return self._base.open(path)
        content = self._own(path, "open")
        return _OverlayFile(content, path, self.locate(path), writable=writable)

    def map(self, path: str) -> memoryview:
        """Give the bytes of a file: a map if it is unchanged, else a copy."""
        if path not in self._files:
            return self._base.map(path)
        content = self._own(path, "map")
        return memoryview(content.read(0, content.size))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step; whatever had that name is gone."""
        found = self.stat(target)
        if found is not None and not found.is_file:
            self._refuse(errno.EISDIR, "rename", source)
        self._need_folder(posixpath.dirname(target), "rename")
        content = self._own(source, "rename")
        if source != target:
            content.is_changed = True
            self._files[source], self._files[target] = None, content

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self._need_file(path, "delete")
        self._files[path] = None

    def sync_dir(self, path: str) -> None:
        """Do nothing, to a folder that is there."""
        self._need_folder(path, "sync the folder")

    def lock(self, path: str, *, wait: bool = False) -> Lock:  # noqa: ARG002 Nobody to wait for.
        """Take a lock among those who use this overlay; the base has none of it."""
        if path in self._held:
            raise LockedError(f"{self.locate(path)} is held by this process", pid=os.getpid())
        self._held.add(path)
        return _OverlayLock(self._held, path)

    def _own(self, path: str, act: str) -> _Content:
        """Give the content of a file, to be changed."""
        self._need_file(path, act)
        content = self._files.get(path)
        if content is None:
            file = self._base.open(path)
            self._open.append(file)
            content = self._files[path] = _Content(self._spool, file)
        return content

    def _need_file(self, path: str, act: str) -> None:
        found = self.stat(path)
        if found is None:
            self._refuse(errno.ENOENT, act, path)
        if not found.is_file:
            self._refuse(errno.EISDIR, act, path)

    def _need_folder(self, path: str, act: str) -> None:
        found = self.stat(path) if path else None
        if path and (found is None or found.is_file):
            self._refuse(errno.ENOENT, act, path)

    def _refuse(self, number: int, act: str, path: str) -> NoReturn:
        place = self.locate(path)
        kind = MissingError if number == errno.ENOENT else StorageError
        text = f"cannot {act} {place}: {os.strerror(number)}"
        raise kind(text, path=place, errno=number)
