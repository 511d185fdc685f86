"""What can be done to a tree of files, as values that can be replayed.

Acts name inodes and directory entries, not paths, because that is what a disk keeps: after a
power cut a file's bytes may be there without its name, and a name without the bytes.

==========  =================================================  ==================
act         changes                                            durable by
==========  =================================================  ==================
Write,      the bytes of an inode                              Sync of the inode
Truncate,
Punch
Create,     an entry of a folder                               SyncDir of the
MakeDir,                                                       folder
Rename,
Unlink
Revert      what a file shows: as it is on the disk     is durable
Sync,       nothing: they make durable what came before
SyncDir
Mark        nothing: what the workload knows at this moment
==========  =================================================  ==================

An act keeps the path it was asked for, to be read by people; replaying ignores it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Act",
    "Create",
    "DataOp",
    "MakeDir",
    "Mark",
    "NameOp",
    "Op",
    "Punch",
    "Rename",
    "Revert",
    "Sync",
    "SyncDir",
    "Truncate",
    "Unlink",
    "Write",
]


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes put at a place of a file."""

    inode: int
    offset: int
    data: bytes = field(repr=False)
    path: str

    def __str__(self) -> str:
        """Give the half-open range that is written."""
        return f"write {self.path} [{self.offset}, {self.offset + len(self.data)})"


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file cut, or grown with a hole."""

    inode: int
    size: int
    path: str

    def __str__(self) -> str:
        """Give the new size."""
        return f"truncate {self.path} to {self.size}"


@dataclass(frozen=True, slots=True)
class Punch:
    """A range of a file turned into a hole."""

    inode: int
    offset: int
    length: int
    path: str

    def __str__(self) -> str:
        """Give the half-open range that is freed."""
        return f"punch {self.path} [{self.offset}, {self.offset + self.length})"


@dataclass(frozen=True, slots=True)
class Revert:
    """A file that shows again what is on the disk, after a failed sync gave the rest up.

    Nothing is written: that is how the file was on the disk all the time.
    """

    inode: int
    data: bytes = field(repr=False)
    blocks: frozenset[int] = field(repr=False)
    path: str

    def __str__(self) -> str:
        """Give the size that is left."""
        return f"revert {self.path} to {len(self.data)} bytes"


@dataclass(frozen=True, slots=True)
class Create:
    """A new, empty file under a name."""

    folder: int
    name: str
    inode: int
    mode: int
    path: str

    def __str__(self) -> str:
        """Give path and mode."""
        return f"create {self.path} mode {self.mode:04o}"


@dataclass(frozen=True, slots=True)
class MakeDir:
    """A new, empty folder under a name."""

    folder: int
    name: str
    inode: int
    path: str

    def __str__(self) -> str:
        """Give the path."""
        return f"make folder {self.path}"


@dataclass(frozen=True, slots=True)
class Rename:
    """An inode moved from one name to another, in one step."""

    source_folder: int
    source_name: str
    folder: int
    name: str
    inode: int
    source: str
    path: str

    def __str__(self) -> str:
        """Give both paths."""
        return f"rename {self.source} to {self.path}"


@dataclass(frozen=True, slots=True)
class Unlink:
    """A name removed; the inode lives on while it is open."""

    folder: int
    name: str
    inode: int
    path: str

    def __str__(self) -> str:
        """Give the path."""
        return f"unlink {self.path}"


@dataclass(frozen=True, slots=True)
class Sync:
    """The bytes of an inode made durable, or (not ``ok``) given up by the kernel."""

    inode: int
    path: str
    ok: bool = True

    def __str__(self) -> str:
        """Give the path, and whether it failed."""
        return f"sync {self.path}" + ("" if self.ok else " FAILED")


@dataclass(frozen=True, slots=True)
class SyncDir:
    """The entries of a folder made durable, or (not ``ok``) given up by the kernel."""

    folder: int
    path: str
    ok: bool = True

    def __str__(self) -> str:
        """Give the path, and whether it failed."""
        return f"sync folder {self.path or '.'}" + ("" if self.ok else " FAILED")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a workload knew at this moment: "bundle 17 is acknowledged"."""

    label: str
    facts: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        """Give label and facts."""
        return " ".join([f"mark {self.label}", *(f"{key}={value}" for key, value in self.facts)])

    def __getitem__(self, key: str) -> object:
        """Give one fact."""
        return dict(self.facts)[key]


DataOp: TypeAlias = Write | Truncate | Punch
NameOp: TypeAlias = Create | MakeDir | Rename | Unlink
Act: TypeAlias = DataOp | Revert | NameOp | Sync | SyncDir
Op: TypeAlias = Act | Mark
