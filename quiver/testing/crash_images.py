"""From a recorded history, all that a power cut may leave on the disk, within a budget.

The power fails after the first ``point`` acts. Of those, an act is *forced* if a good sync of its
file or folder follows before the cut, else *pending*: it may have reached the disk or not. An
image is the forced acts and a legal choice of pending ones, at most one of them torn.

=============  =================================================================================
model          what may be lost
=============  =================================================================================
``posix``      any pending act alone, in any order: only what the standard promises
``journaled``  as ext4 and XFS do it: names persist in the order of their acts, and a sync of any
               file or folder also persists all acts on names before it; bytes in any order
=============  =================================================================================

After a sync that failed, what was pending stays so for ever: a second one forces nothing of it,
because the kernel has thrown the bytes away while it still shows them to readers.

Images that are equal in their bytes are yielded once for each number of marks: what is legal
before a bundle was acknowledged may be a loss after it.

A failed sync of a file gives its bytes up for good: a later one does not force them. Names are not
given up: a file system that cannot write its journal stops, and one that can keeps what it holds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, pairwise
from typing import Final, Literal, TypeAlias, TypeVar

from quiver.disk import LocalDisk
from quiver.testing.acts import (
    Create,
    MakeDir,
    Mark,
    NameOp,
    Op,
    Rename,
    Revert,
    Sync,
    SyncDir,
    Truncate,
    Unlink,
    Write,
)
from quiver.testing.file_tree import BLOCK, Blob, History, Tree
from quiver.testing.memory_disk import MemoryDisk

__all__ = ["Image", "Model", "crash_images"]

_T = TypeVar("_T")

Model: TypeAlias = Literal["posix", "journaled"]

EXHAUSTIVE_MAX: Final = 6
"""Up to this many pending acts, all their subsets are tried."""

_RANDOM_SUBSETS: Final = 16
_SECTOR: Final = 512
_MIXTURES: Final = 3
"""How many times a write of many sectors reaches the disk in part, each time in others."""
_NAME_OPS: Final = (Create, MakeDir, Rename, Unlink)


@dataclass(frozen=True, slots=True)
class Tear:
    """How much of a pending write reached the disk; ``low`` and ``high`` are places in its data.

    ``head`` and ``tail`` keep one end, ``grown`` keeps a head and the new size, ``zero`` only the
    size, ``garbage`` all but the range, which comes out as noise, ``sectors`` some of its sectors,
    so that what was there before shows between them.
    """

    kind: Literal["head", "tail", "grown", "zero", "garbage", "sectors"]
    low: int
    high: int

    def apply(self, op: Write, tree: Tree, rng: random.Random) -> None:
        """Do to the file what the torn write did."""
        blob = tree.blob(op.inode)
        if self.kind in ("grown", "zero", "tail"):
            blob.truncate(max(len(blob.data), op.offset + len(op.data)))
        if self.kind == "sectors":
            lot = random.Random(rng.getrandbits(32) + self.high)
            for start, end in _sectors(op):
                if lot.getrandbits(1):
                    blob.write(start, op.data[start - op.offset : end - op.offset])
            return
        data = op.data[self.low : self.high]
        if self.kind == "garbage":
            blob.write(op.offset, op.data)
            data = rng.randbytes(len(data))
        blob.write(op.offset + self.low, data)

    def __str__(self) -> str:
        """Say what is left of the data."""
        return f"{self.kind} [{self.low}, {self.high})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which pending acts reached the disk, by index, and which of them is torn."""

    kept: frozenset[int]
    torn: tuple[int, Tear] | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """One state that a power cut after ``point`` acts may leave behind."""

    history: History = field(repr=False)
    model: Model
    point: int
    pending: tuple[int, ...]
    kept: frozenset[int]
    torn: tuple[int, Tear] | None
    tree: Tree = field(repr=False)
    digest: bytes = field(repr=False)

    @property
    def forced(self) -> tuple[int, ...]:
        """Indexes of the acts that are on the disk for certain; syncs and marks are not acts."""
        pending = frozenset(self.pending)
        return tuple(
            index
            for index, op in enumerate(self.history.ops[: self.point])
            if index not in pending and not isinstance(op, Sync | SyncDir | Mark)
        )

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What the workload knew when the power failed."""
        return tuple(op for op in self.history.ops[: self.point] if isinstance(op, Mark))

    @property
    def torn_apart(self) -> bool:
        """Whether a write was cut, or reached its file and an earlier one to it did not.

        No store can tell what that leaves from damage.
        """
        ops = self.history.ops
        lost: set[int] = set()
        for index in self.pending:
            op = ops[index]
            if not isinstance(op, Write | Truncate):
                continue
            if index not in self.kept:
                lost.add(op.inode)
            elif op.inode in lost:
                return True
        return self.torn is not None

    def disk(self, *, capacity: int | None = None, punch_supported: bool = True) -> MemoryDisk:
        """Start a fresh disk from this image; what is done there is recorded anew."""
        return MemoryDisk(self.tree, capacity=capacity, punch_supported=punch_supported)

    def export(self, folder: str) -> None:
        """Write the image below a real folder, holes and modes included, for a person to open."""
        disk = LocalDisk(folder, create=True)
        try:
            for path, inode in self.tree.walk():
                if inode in self.tree.folders:
                    disk.make_dir(path)
                else:
                    _export_file(disk, path, self.tree.blobs[inode])
        finally:
            disk.close()

    def with_choice(self, kept: Iterable[int], torn: tuple[int, Tear] | None) -> Image:
        """Give the image of the same power cut to which these pending acts were kept instead.

        What the model does not allow without something that was lost is lost as well.
        """
        ops = self.history.ops
        chosen = _legal(ops, self.pending, kept, model=self.model)
        choice = Choice(chosen, torn if torn is not None and torn[0] in chosen else None)
        tree = self.history.base.copy()
        tree = _replay(tree, ops, range(self.point), choice=choice, pending=self.pending)
        return replace(self, kept=choice.kept, torn=choice.torn, tree=tree, digest=tree.digest())

    def describe(self) -> str:
        """Tell in lines what happened: the last acts, and what became of each pending one."""
        ops = self.history.ops
        lines = [f"power cut after act {self.point} of {len(ops)}, model {self.model}"]
        if self.point:
            lines.append(f"  last     {self.point - 1}: {ops[self.point - 1]}")
        for index in self.pending:
            fate = "kept" if index in self.kept else "lost"
            tear = ""
            if self.torn is not None and self.torn[0] == index:
                fate, tear = "torn", f", left: {self.torn[1]}"
            lines.append(f"  {fate:8} {index}: {ops[index]}{tear}")
        return "\n".join(lines)


def _export_file(disk: LocalDisk, path: str, blob: Blob) -> None:
    file = disk.create(path, mode=blob.mode)
    try:
        file.truncate(len(blob.data))
        for block in sorted(blob.blocks):
            file.write(block * BLOCK, blob.data[block * BLOCK : (block + 1) * BLOCK])
    finally:
        file.close()


def crash_images(
    history: History,
    *,
    model: Model,
    budget: int = 100_000,
    seed: int = 0,
    points: Iterable[int] | None = None,
) -> Iterator[Image]:
    """Go through the images of all crash points in order, or of those in ``points``.

    At most ``budget`` images come, spread over the points; the most telling of each point first
    (nothing kept, everything, each act alone, all but one, prefixes), then torn and random ones.
    With more points than budget, points and images are chosen by lot. Equal arguments give equal
    images.
    """
    ops = history.ops
    cuts = sorted(set(range(len(ops) + 1) if points is None else points))
    if budget < len(cuts):
        cuts = sorted(random.Random(f"{seed} {model} {len(cuts)}").sample(cuts, budget))
    seen: set[tuple[int, bytes]] = set()
    baked, baked_count, left = history.base.copy(), 0, budget
    for number, point in enumerate(cuts):
        pending = _pending(ops, baked_count, point, model=model)
        certain = pending[0] if pending else point
        for op in ops[baked_count:certain]:
            baked.apply(op)
        baked_count = certain
        rng = random.Random(f"{seed} {model} {point}")
        quota = -(-left // (len(cuts) - number))
        mark_count = sum(isinstance(op, Mark) for op in ops[:point])
        for kept, torn in _select(_choices(ops, pending, rng), quota, rng):
            choice = Choice(_legal(ops, pending, kept, model=model), torn)
            tree = _replay(baked, ops, range(baked_count, point), choice=choice, pending=pending)
            digest = tree.digest()
            if (mark_count, digest) not in seen:
                seen.add((mark_count, digest))
                left -= 1
                yield Image(history, model, point, pending, choice.kept, choice.torn, tree, digest)


def _pending(ops: Sequence[Op], start: int, point: int, *, model: Model) -> tuple[int, ...]:
    """Find the acts in ``[start, point)`` that no later sync forced, going back from the cut."""
    synced: set[int] = set()
    any_sync = False
    found: list[int] = []
    for index in range(point - 1, start - 1, -1):
        op = ops[index]
        match op:
            case Sync(inode, _, ok=False):
                synced.discard(inode)
            case Sync(inode) | SyncDir(inode, _, ok=True):
                any_sync = True
                synced.add(inode)
            case Revert(inode):
                synced.add(inode)
            case Mark() | SyncDir():
                pass
            case Create() | MakeDir() | Rename() | Unlink():
                if not (any_sync if model == "journaled" else _folders(op) <= synced):
                    found.append(index)
            case _:
                if op.inode not in synced:
                    found.append(index)
    return tuple(reversed(found))


def _folders(op: NameOp) -> set[int]:
    return {op.folder, op.source_folder} if isinstance(op, Rename) else {op.folder}


def _replay(
    baked: Tree, ops: Sequence[Op], span: range, *, choice: Choice, pending: Sequence[int]
) -> Tree:
    tree = baked.copy()
    lost = frozenset(pending) - choice.kept
    for index in span:
        op = ops[index]
        if choice.torn is not None and choice.torn[0] == index and isinstance(op, Write):
            choice.torn[1].apply(op, tree, random.Random(index))
        elif index not in lost:
            tree.apply(op)
        elif isinstance(op, Create | MakeDir):
            tree.conceive(op)  # Its bytes and later names may have come; this name did not.
    return tree


def _legal(
    ops: Sequence[Op], pending: Sequence[int], kept: Iterable[int], *, model: Model
) -> frozenset[int]:
    """Take back what the model does not keep without something that was lost."""
    if model == "posix":
        return frozenset(kept)
    chosen = set(kept)
    names = [index for index in pending if isinstance(ops[index], _NAME_OPS)]
    gap = next((index for index in names if index not in chosen), None)
    if gap is not None:
        chosen -= {index for index in names if index > gap}
    return frozenset(chosen)


def _choices(
    ops: Sequence[Op], pending: Sequence[int], rng: random.Random
) -> list[tuple[Iterable[int], tuple[int, Tear] | None]]:
    """All choices of a crash point, the most telling first, whether the model allows them or not.

    Most are never looked at, so nothing is made of them here.
    """
    found: list[tuple[Iterable[int], tuple[int, Tear] | None]]
    found = [(kept, None) for kept in _subsets(pending, rng)]
    names = [index for index in pending if isinstance(ops[index], _NAME_OPS)]
    for position, index in enumerate(pending):
        op = ops[index]
        if isinstance(op, Write):
            # With all the others, as the last to arrive, and alone but for the names before it.
            befores = (pending, pending[: position + 1], [*names, index])
            tears = list(_tears(len(op.data), rng))
            if len(op.data) > _SECTOR:
                tears += [Tear("sectors", 0, mixture) for mixture in range(_MIXTURES)]
            found += [(before, (index, tear)) for tear in tears for before in befores]
    return found


def _subsets(pending: Sequence[int], rng: random.Random) -> Iterator[Iterable[int]]:
    everything = frozenset(pending)
    yield from ((), pending)
    yield from ((index,) for index in pending)
    yield from (everything - {index} for index in pending)
    yield from (pending[:count] for count in range(2, len(pending) - 1))
    if len(pending) <= EXHAUSTIVE_MAX:
        sizes = range(2, len(pending) - 1)
        yield from chain.from_iterable(combinations(pending, size) for size in sizes)
    else:
        for _ in range(_RANDOM_SUBSETS):
            yield [index for index in pending if rng.getrandbits(1)]


def _tears(length: int, rng: random.Random) -> Iterator[Tear]:
    yield Tear("zero", 0, 0)
    for head in sorted({1, length // 2, length - 1, _SECTOR, BLOCK}):
        if 0 < head < length:
            yield Tear("head", 0, head)
    if length > 1:
        yield Tear("grown", 0, length // 2)
        yield Tear("tail", length // 2, length)
    if length:
        sector = rng.randrange(-(-length // _SECTOR)) * _SECTOR
        yield Tear("garbage", sector, min(sector + _SECTOR, length))


def _sectors(op: Write) -> Iterator[tuple[int, int]]:
    """Cut a write where the sectors of its file end."""
    end = op.offset + len(op.data)
    cuts = range(op.offset // _SECTOR * _SECTOR + _SECTOR, end, _SECTOR)
    return pairwise([op.offset, *cuts, end])


def _select(choices: list[_T], quota: int, rng: random.Random) -> list[_T]:
    """Keep the first half of the quota as it stands, and fill the rest by lot."""
    if len(choices) <= quota:
        return choices
    sure = choices[: quota // 2]
    return sure + rng.sample(choices[len(sure) :], quota - len(sure))
