"""The heart of a disk in RAM: the tree as it is, each act in order, and planned failures."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, TypeAlias

from quiver.errors import CapacityError, MissingError, StorageError
from quiver.testing.acts import Act, Mark, Op, Punch, Revert, Sync, SyncDir, Truncate, Write
from quiver.testing.file_tree import BLOCK, Blob, History, Tree

__all__ = ["Fault", "FaultKind", "Killed", "Recorder", "locate", "refuse"]

FaultKind: TypeAlias = Literal["EIO", "ENOSPC", "short", "kill"]


class Killed(BaseException):
    """The process ends here: nothing of it may catch this."""


@dataclass(slots=True)
class Fault:
    """A planned failure; ``hits`` counts how often it struck.

    ``point`` is how many acts, syncs and marks there were in the history when it did so first.
    """

    when: int | Callable[[Act], bool]
    error: FaultKind
    sticky: bool
    hits: int = 0
    point: int = 0

    def strikes(self, index: int, op: Act) -> bool:
        """Whether it strikes this act, the ``index``-th one that was tried on the disk."""
        if self.hits and not self.sticky:
            return False
        if callable(self.when):
            return self.when(op)
        return index >= self.when if self.sticky else index == self.when


def locate(path: str) -> str:
    """Give the path with a word in front that says where it is not."""
    return f"memory:/{path}"


def refuse(number: int, act: str, path: str) -> NoReturn:
    """Raise what ``LocalDisk`` raises for this error number."""
    place = locate(path)
    text = f"cannot {act} {place}: {os.strerror(number)}"
    if number == errno.ENOSPC:
        raise CapacityError(text, hint="free space on this file system, then try again")
    kind = MissingError if number == errno.ENOENT else StorageError
    raise kind(text, path=place, errno=number)


class Recorder:
    """What a MemoryDisk and its files share. Whoever acts holds ``mutex``."""

    def __init__(self, tree: Tree | None, capacity: int | None, *, punch_supported: bool) -> None:
        self.mutex = threading.RLock()
        self.capacity = capacity
        self.punch_supported = punch_supported
        self.act_count = 0
        self._base = Tree() if tree is None else tree.pruned()
        self.tree = self._base.copy()
        self._ops: list[Op] = []
        self.given_up: dict[int, Blob] = {}
        """Files with a failed sync, as they were at the last good one: what a disk may show."""
        self._faults: list[Fault] = []
        self._open: Counter[int] = Counter()
        self._next_inode = 1 + max({*self.tree.blobs, *self.tree.folders})

    @property
    def history(self) -> History:
        """All acts so far, as a snapshot."""
        with self.mutex:
            return History(self._base, tuple(self._ops))

    def mark(self, label: str, **facts: object) -> None:
        """Write down what the workload knows now, in order with the acts."""
        with self.mutex:
            self._ops.append(Mark(label, tuple(sorted(facts.items()))))

    def fail(
        self,
        when: int | Callable[[Act], bool],
        *,
        error: FaultKind = "EIO",
        sticky: bool = False,
    ) -> Fault:
        """Let an act fail: the one of this number (from 0), or the first that ``when`` picks.

        ``EIO`` and ``ENOSPC`` do nothing of the act, ``short`` writes half of it and then says
        the disk is full, ``kill`` raises Killed before the act. ``sticky`` goes on: from that
        number, or for all that ``when`` picks.
        """
        fault = Fault(when, error, sticky)
        with self.mutex:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Take back all planned failures."""
        with self.mutex:
            self._faults.clear()

    def used(self) -> int:
        """Bytes in blocks of all files that have a name or are open."""
        with self.mutex:
            return BLOCK * sum(len(blob.blocks) for blob in self.tree.blobs.values())

    def act(self, op: Act) -> None:
        """Do and record one act that is not a write, unless a fault strikes."""
        fault = self.strike(op)
        if fault is not None:
            if isinstance(op, Sync | SyncDir):
                self._ops.append(replace(op, ok=False))
            if isinstance(op, Sync):
                self.given_up.setdefault(op.inode, self._synced(op.inode))
            number = errno.EIO if fault == "EIO" else errno.ENOSPC
            refuse(number, str(op).split()[0], op.path)
        self.record(op)

    def _synced(self, inode: int) -> Blob:
        """Replay the acts on a file up to its last good sync; empty if it never had one."""
        last = 0
        for index, op in enumerate(self._ops):
            if isinstance(op, Sync) and op.inode == inode and op.ok:
                last = index
        base = self._base.blobs.get(inode)
        tree = Tree()
        tree.blobs[inode] = base.copy() if base is not None else Blob(self.tree.blobs[inode].mode)
        for op in self._ops[:last]:
            if isinstance(op, Write | Truncate | Punch | Revert) and op.inode == inode:
                tree.apply(op)
        return tree.blobs[inode]

    def strike(self, op: Act) -> FaultKind | None:
        """Count one act and say which planned failure strikes it."""
        index, self.act_count = self.act_count, self.act_count + 1
        for fault in self._faults:
            if fault.strikes(index, op):
                fault.point = fault.point if fault.hits else len(self._ops)
                fault.hits += 1
                if fault.error == "kill":
                    raise Killed
                return fault.error
        return None

    def record(self, op: Act) -> None:
        """Do an act for certain."""
        self.tree.apply(op)
        self._ops.append(op)

    def room_in(self, blob: Blob, offset: int, length: int) -> int:
        """How many of ``length`` bytes fit on the disk when written at ``offset``."""
        if self.capacity is None:
            return length
        free = (self.capacity - self.used()) // BLOCK
        for block in range(offset // BLOCK, -(-(offset + length) // BLOCK)):
            if block not in blob.blocks:
                if free <= 0:
                    return max(0, min(length, block * BLOCK - offset))
                free -= 1
        return length

    def hold(self, inode: int) -> None:
        """Open one handle."""
        self._open[inode] += 1

    def let_go(self, inode: int) -> None:
        """Close one handle; the bytes of a file without a name go with its last."""
        self._open[inode] -= 1
        self.drop_if_unused(inode)

    def drop_if_unused(self, inode: int) -> None:
        """Forget the bytes of a file that has neither a name nor a handle."""
        named = any(inode in folder.values() for folder in self.tree.folders.values())
        if not named and self._open[inode] <= 0:
            self.tree.blobs.pop(inode, None)

    def new_inode(self) -> int:
        """Give a number that no inode had."""
        inode, self._next_inode = self._next_inode, self._next_inode + 1
        return inode
