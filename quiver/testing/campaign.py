"""Lead lives, enumerate what a crash may leave of each, and judge all of it.

A campaign is a sequence of chapters, one for each life. A chapter depends on the name of its life
and the plan alone, so chapters may be told in any order and by any number of processes, and the
digest of a campaign is the same each time.

====================  ==========================================================================
what                  how it is found
====================  ==========================================================================
a power cut           each legal image after each act of a life
a kill                the image to which nothing was lost: one of those
a cut in a recovery   each image of an image's recovery, to ``depth`` crashes in a row
a kill, then a cut    a life that ends before an act, the same life led again on what it left in
                      memory, and a power cut during that
a failing disk        one act refused, or all from one on: EIO, a full disk, half a write; what is
                      left when the life is over, and what a power cut leaves of that
====================  ==========================================================================
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import blake3

from quiver.errors import QuiverError
from quiver.testing.crash_images import Image, Model, crash_images
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.recorder import FaultKind, Killed
from quiver.testing.shrink import shrink
from quiver.testing.subject import Loss, Subject

__all__ = ["MODELS", "Campaign", "Chapter", "Failure", "Plan"]

MODELS: Final[tuple[Model, ...]] = ("posix", "journaled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How far to go. Equal plans find equal things."""

    seed: int = 0
    models: Sequence[Model] = MODELS
    images_per_life: int = 1500
    """At most so many images of the life itself, under each model."""
    depth: int = 2
    """Crashes in a row: 1 cuts the life, 2 also each recovery, 3 also the recovery after that."""
    nested_share: float = 0.3
    """Of how many images the recovery is cut as well."""
    nested_images: int = 8
    """At most so many images of one recovery."""
    faults_per_life: int = 30
    """How many failing acts and kills are tried, by lot; seven for each act is all of them."""
    cuts_per_fault: int = 4
    """At most so many images of a power cut after each."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A promise that was broken: the crashes that led to it, outermost first, and how it shows."""

    life: str
    images: tuple[Image, ...]
    loss: str
    fault: str = ""

    def __str__(self) -> str:
        """Tell the whole story."""
        parts = [self.loss, f"life: {self.life}"]
        if self.fault:
            parts.append(f"the disk fails: {self.fault}")
        for depth, image in enumerate(self.images):
            parts += ["then, in the recovery:"] * (depth > 0) + [image.describe()]
        return "\n".join(parts)


@dataclass(slots=True)
class Chapter:
    """What came of one life."""

    life: str
    images: int = 0
    """Distinct ones, those inside recoveries included."""
    nested: int = 0
    """Those inside recoveries."""
    faults: int = 0
    """Failing acts that were tried."""
    prints: set[int] = field(default_factory=set, repr=False)
    """One number for each tree of files that was seen, to count them over all chapters."""
    digest: bytes = b""
    failure: Failure | None = None


@dataclass(slots=True)
class Campaign:
    """All lives of a subject, judged according to a plan."""

    subject: Subject[Any]
    plan: Plan = field(default_factory=Plan)

    def run(self) -> Iterator[Chapter]:
        """Tell all chapters in the order of their lives."""
        return (self.tell(life) for life in self.subject.lives)

    def tell(self, life: str) -> Chapter:
        """Lead one life and judge its images, up to the first loss, which is shrunk."""
        return _Teller(self.subject, self.plan, Chapter(life)).tell()


def some_faults(acts: int, plan: Plan) -> list[tuple[int, FaultKind, bool]]:
    """Choose failing acts by lot: the number of the act, how it fails, whether all later do."""
    failures: tuple[FaultKind, ...] = ("EIO", "ENOSPC", "short")
    kinds: list[tuple[FaultKind, int]] = [(kind, sticky) for kind in failures for sticky in (0, 1)]
    every = [(act, *kind) for act in range(acts) for kind in [*kinds, ("kill", 0)]]
    lot = random.Random(f"faults {plan.seed} {acts}")
    chosen = lot.sample(every, min(plan.faults_per_life, len(every)))
    return [(act, kind, bool(sticky)) for act, kind, sticky in sorted(chosen)]


class _Teller:
    """One chapter being told."""

    def __init__(self, subject: Subject[Any], plan: Plan, chapter: Chapter) -> None:
        self._subject = subject
        self._plan = plan
        self._chapter = chapter
        self._sum = blake3.blake3()
        self._judged: set[Hashable] = set()
        self._seen: set[tuple[Hashable, bytes]] = set()
        self._fault = ""

    def tell(self) -> Chapter:
        plan, chapter = self._plan, self._chapter
        disk = MemoryDisk()
        self._subject.live(chapter.life, disk)
        images = chain.from_iterable(
            crash_images(disk.history, model=model, budget=plan.images_per_life, seed=plan.seed)
            for model in plan.models
        )
        if self._visit_all(images):
            for number, error, sticky in some_faults(disk.act_count, plan):
                if not self._fail(number, error, sticky=sticky):
                    break
        chapter.digest = self._sum.digest()
        return chapter

    def _visit_all(self, images: Iterable[Image]) -> bool:
        return all(self._visit((image,), self._subject.facts(image.marks)) for image in images)

    def _fail(self, number: int, error: FaultKind, *, sticky: bool) -> bool:
        """Lead the life again on a disk that fails, and judge what is left; False after a loss."""
        self._chapter.faults += 1
        self._fault = f"act {number}, {error}, {'from then on' if sticky else 'once'}"
        disk = MemoryDisk()
        disk.fail(number, error=error, sticky=sticky)
        try:
            self._subject.live(self._chapter.life, disk)
        except Killed:
            return self._live_on(disk)
        except QuiverError as refusal:
            self._sum.update(type(refusal).__name__.encode())
        except Loss as loss:
            return self._lose((), str(loss))
        return self._cut_from(disk, 0)

    def _live_on(self, disk: MemoryDisk) -> bool:
        """Lead the life again where a kill ended it: what was written is there, durable or not."""
        disk.heal()
        disk.forget_locks()
        killed_at = len(disk.history.ops)
        try:
            self._subject.live(self._chapter.life, disk)
        except (Loss, QuiverError) as loss:
            return self._lose((), f"living on after a kill: {loss}")
        return self._cut_from(disk, killed_at)

    def _cut_from(self, disk: MemoryDisk, first: int) -> bool:
        history = disk.history
        last = len(history.ops)
        images = chain.from_iterable(
            crash_images(history, model=model, budget=budget, seed=last, points=points)
            for model in self._plan.models
            for budget, points in ((2, [last]), (self._plan.cuts_per_fault, range(first, last)))
        )
        return self._visit_all(images)

    def _visit(self, path: tuple[Image, ...], facts: Hashable) -> bool:
        """Judge one image and perhaps the crashes of its recovery; False after a loss."""
        image = path[-1]
        key = (facts, image.digest)
        if key in self._seen:
            return True
        self._seen.add(key)
        self._chapter.images += 1
        self._chapter.nested += len(path) > 1
        self._chapter.prints.add(int.from_bytes(image.digest[:8], "little"))
        self._sum.update(image.digest)
        torn = any(crash.torn_apart for crash in path)
        disk = image.disk()
        try:
            self._judge(disk, facts, torn=torn)
        except Loss as loss:
            return self._lose(self._shrunk(path, facts), str(loss))
        lot = random.Random(f"{self._plan.seed} {image.digest.hex()}")
        if len(path) >= self._plan.depth or lot.random() >= self._plan.nested_share:
            return True
        inner = crash_images(
            disk.history,
            model=image.model,
            budget=self._plan.nested_images,
            seed=lot.getrandbits(32),
        )
        return all(self._visit((*path, crash), facts) for crash in inner)

    def _judge(self, disk: MemoryDisk, facts: Hashable, *, torn: bool) -> None:
        """Recover on a disk and judge it; many images recover to the same, judged once."""
        state = self._subject.recover(disk, facts, torn=torn)
        key = (disk.tree.digest(), facts, state, torn)
        if key not in self._judged:
            self._subject.judge(MemoryDisk(disk.tree), facts, state, torn=torn)
            self._judged.add(key)

    def _lose(self, path: tuple[Image, ...], loss: str) -> bool:
        self._sum.update(loss.encode())
        self._chapter.failure = Failure(self._chapter.life, path, loss, self._fault)
        return False

    def _shrunk(self, path: tuple[Image, ...], facts: Hashable) -> tuple[Image, ...]:
        def breaks(image: Image) -> bool:
            torn = any(crash.torn_apart for crash in (*path[:-1], image))
            try:
                self._judge(image.disk(), facts, torn=torn)
            except Loss:
                return True
            return False

        return (*path[:-1], shrink(path[-1], breaks))
