"""A tree of files in RAM: inodes with bytes and holes, folders with entries, and its history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import blake3

from quiver.testing.acts import Create, MakeDir, Op, Punch, Rename, Revert, Truncate, Unlink, Write

__all__ = ["BLOCK", "ROOT", "Blob", "Folder", "History", "Tree"]

BLOCK: Final = 4096
"""Files take disk space in blocks of this many bytes."""

ROOT: Final = 0
"""The inode of the root folder."""


class Blob:
    """The bytes of one file, and which of its blocks are not holes."""

    __slots__ = ("_digest", "blocks", "data", "mode")

    def __init__(self, mode: int) -> None:
        self.data = bytearray()
        self.blocks: set[int] = set()
        self.mode = mode
        self._digest: bytes | None = None

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at a place; a gap behind the old end becomes a hole."""
        if not data:
            return
        end = offset + len(data)
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset:end] = data
        self.blocks.update(range(offset // BLOCK, -(-end // BLOCK)))
        self._digest = None

    def truncate(self, size: int) -> None:
        """Cut, or grow with a hole."""
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))
        else:
            del self.data[size:]
        self.blocks = {block for block in self.blocks if block * BLOCK < size}
        self._digest = None

    def punch(self, offset: int, length: int) -> None:
        """Zero a range within the file and free the blocks that it covers."""
        end = min(offset + length, len(self.data))
        if end <= offset:
            return
        self.data[offset:end] = bytes(end - offset)
        last = -(-end // BLOCK) if end == len(self.data) else end // BLOCK
        self.blocks.difference_update(range(-(-offset // BLOCK), last))
        self._digest = None

    def put(self, data: bytes, blocks: frozenset[int]) -> None:
        """Replace all of it."""
        self.data = bytearray(data)
        self.blocks = set(blocks)
        self._digest = None

    def next_data(self, offset: int) -> int | None:
        """Find the first byte at or after ``offset`` that is in a block; None if none is."""
        if offset >= len(self.data):
            return None
        ahead = (block for block in self.blocks if block >= offset // BLOCK)
        first = min(ahead, default=None)
        return None if first is None else max(offset, first * BLOCK)

    def copy(self) -> Blob:
        """Give one that can be changed alone."""
        twin = Blob(self.mode)
        twin.data = self.data.copy()
        twin.blocks = self.blocks.copy()
        twin._digest = self._digest
        return twin

    def digest(self) -> bytes:
        """BLAKE3 of the bytes, kept until they change."""
        if self._digest is None:
            self._digest = blake3.blake3(self.data).digest()
        return self._digest


Folder: TypeAlias = dict[str, int]
"""The entries of one folder: inode by name."""


class Tree:
    """Inodes and the names they have. Copies share what neither side changes."""

    __slots__ = ("_own", "blobs", "folders")

    def __init__(self) -> None:
        self.blobs: dict[int, Blob] = {}
        self.folders: dict[int, Folder] = {ROOT: {}}
        self._own: set[int] = {ROOT}

    def copy(self) -> Tree:
        """Give a tree that can be changed alone; bytes are copied when one side changes them."""
        twin = Tree()
        twin.blobs = self.blobs.copy()
        twin.folders = self.folders.copy()
        twin._own = set()
        self._own = set()
        return twin

    def pruned(self) -> Tree:
        """Give a copy without the inodes that have no name, as a mount leaves it."""
        twin = self.copy()
        named = {inode for _, inode in twin.walk()} | {ROOT}
        twin.blobs = {inode: blob for inode, blob in twin.blobs.items() if inode in named}
        twin.folders = {inode: names for inode, names in twin.folders.items() if inode in named}
        return twin

    def blob(self, inode: int) -> Blob:
        """Give a file's bytes, to be changed."""
        if inode not in self._own:
            self.blobs[inode] = self.blobs[inode].copy()
            self._own.add(inode)
        return self.blobs[inode]

    def folder(self, inode: int) -> Folder:
        """Give a folder's entries, to be changed."""
        if inode not in self._own:
            self.folders[inode] = self.folders[inode].copy()
            self._own.add(inode)
        return self.folders[inode]

    def conceive(self, op: Create | MakeDir) -> None:
        """Make the inode of an act without giving it a name."""
        if isinstance(op, Create):
            self.blobs[op.inode] = Blob(op.mode)
        else:
            self.folders[op.inode] = {}
        self._own.add(op.inode)

    def apply(self, op: Op) -> None:
        """Replay one act; names that earlier acts were to make may be missing."""
        match op:
            case Write(inode, offset, data):
                self.blob(inode).write(offset, data)
            case Truncate(inode, size):
                self.blob(inode).truncate(size)
            case Punch(inode, offset, length):
                self.blob(inode).punch(offset, length)
            case Revert(inode, data, blocks):
                self.blob(inode).put(data, blocks)
            case Create(folder, name, inode) | MakeDir(folder, name, inode):
                self.conceive(op)
                self.folder(folder)[name] = inode
            case Rename(source_folder, source_name, folder, name, inode):
                if self.folders[source_folder].get(source_name) == inode:
                    del self.folder(source_folder)[source_name]
                self.folder(folder)[name] = inode
            case Unlink(folder, name):
                self.folder(folder).pop(name, None)
            case _:
                pass

    def walk(self, inode: int = ROOT, path: str = "") -> Iterator[tuple[str, int]]:
        """Go through all that has a name: (path, inode), folders before what they hold."""
        for name, child in sorted(self.folders[inode].items()):
            place = f"{path}/{name}" if path else name
            yield place, child
            if child in self.folders:
                yield from self.walk(child, place)

    def digest(self) -> bytes:
        """BLAKE3 over names, modes and bytes of all that has a name."""
        total = blake3.blake3()
        for path, inode in self.walk():
            blob = self.blobs.get(inode)
            kind = "folder" if blob is None else f"{blob.mode:o} {blob.digest().hex()}"
            total.update(f"{path}\0{kind}\n".encode())
        return total.digest()


@dataclass(frozen=True, slots=True)
class History:
    """What was on a disk when recording began, all of it durable, and each act since."""

    base: Tree
    ops: tuple[Op, ...]
