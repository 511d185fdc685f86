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
a failing disk        one act refused, or all from one on: EIO, a full disk, half a write; what a
                      power cut leaves from then on, and what is left when the life is over
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

__all__ = ["FAULT_KINDS", "MODELS", "Campaign", "Chapter", "Failure", "Plan", "judge_disk"]

MODELS: Final[tuple[Model, ...]] = ("posix", "journaled")
FAULT_KINDS: Final[tuple[FaultKind, ...]] = ("EIO", "ENOSPC", "short", "kill")


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
    fault_kinds: Sequence[FaultKind] = FAULT_KINDS
    """Which of them; a kill is one for each act, the others are two: once, and from then on."""
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

    subject: Subject
    plan: Plan = field(default_factory=Plan)

    def run(self) -> Iterator[Chapter]:
        """Tell all chapters in the order of their lives."""
        return (self.tell(life) for life in self.subject.lives)

    def tell(self, life: str) -> Chapter:
        """Lead one life and judge its images, up to the first loss, which is shrunk."""
        return _Teller(self.subject, self.plan, Chapter(life)).tell()


def some_faults(acts: int, plan: Plan) -> list[tuple[int, FaultKind, bool]]:
    """Choose failing acts by lot: the number of the act, how it fails, whether all later do."""
    kinds = [
        (kind, sticky)
        for kind in plan.fault_kinds
        for sticky in ((False,) if kind == "kill" else (False, True))
    ]
    every = [(act, *kind) for act in range(acts) for kind in kinds]
    lot = random.Random(f"faults {plan.seed} {acts}")
    chosen = lot.sample(every, min(plan.faults_per_life, len(every)))
    return sorted(chosen)


@dataclass(slots=True)
class _Outcome:
    """What an image came to, whatever was promised, and what became of crashes in its recovery."""

    state: Hashable = None
    seen: Any = None
    loss: str = ""
    inner: list[tuple[Image, _Outcome]] = field(default_factory=list)


class _Teller:
    """One chapter being told."""

    def __init__(self, subject: Subject, plan: Plan, chapter: Chapter) -> None:
        self._subject = subject
        self._plan = plan
        self._chapter = chapter
        self._sum = blake3.blake3()
        self._outcomes: dict[tuple[bytes, int], _Outcome] = {}
        self._looks: dict[tuple[bytes, Hashable], Any] = {}
        self._judged: set[tuple[Hashable, bytes, bool]] = set()
        self._fault = ""

    def tell(self) -> Chapter:
        plan, chapter = self._plan, self._chapter
        disk = MemoryDisk()
        try:
            self._subject.live(chapter.life, disk)
        except Loss as loss:
            self._lose((), f"without a crash: {loss}")
        images = chain.from_iterable(
            crash_images(disk.history, model=model, budget=plan.images_per_life, seed=plan.seed)
            for model in plan.models
        )
        if chapter.failure is None and self._visit_all(images):
            for number, error, sticky in some_faults(disk.act_count, plan):
                if not self._fail(number, error, sticky=sticky):
                    break
        chapter.digest = self._sum.digest()
        return chapter

    def _visit_all(self, images: Iterable[Image]) -> bool:
        point, facts = -1, None
        for image in images:
            if image.point != point:
                point, facts = image.point, self._subject.facts(image.marks)
            if not self._judge(facts, [image], self._outcome(image, 1), torn=False):
                return False
        return True

    def _fail(self, number: int, error: FaultKind, *, sticky: bool) -> bool:
        """Lead the life again on a disk that fails, and judge what is left; False after a loss."""
        self._chapter.faults += 1
        self._fault = f"act {number}, {error}, {'from then on' if sticky else 'once'}"
        disk = MemoryDisk()
        fault = disk.fail(number, error=error, sticky=sticky)
        try:
            self._subject.live(self._chapter.life, disk)
        except Killed:
            return self._live_on(disk)
        except QuiverError as refusal:
            self._sum.update(type(refusal).__name__.encode())
        except Loss as loss:
            return self._lose((), str(loss))
        return self._cut_from(disk, fault.point)  # Up to there it is the life without a fault.

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

    def _outcome(self, image: Image, depth: int) -> _Outcome:
        """Recover an image, look at what that gives, and crash some of the recoveries."""
        key = (image.digest, depth)
        if key in self._outcomes:
            return self._outcomes[key]
        outcome = self._outcomes[key] = _Outcome()
        self._chapter.prints.add(int.from_bytes(image.digest[:8], "little"))
        disk = image.disk()
        try:
            outcome.state = self._subject.recover(disk, self._chapter.life)
            outcome.seen = self._look(disk, outcome.state)
        except Loss as loss:
            outcome.loss = str(loss)
        plan, lot = self._plan, random.Random(f"{self._plan.seed} {image.digest.hex()}")
        if depth < plan.depth and lot.random() < plan.nested_share:
            inner = crash_images(
                disk.history,
                model=image.model,
                budget=plan.nested_images,
                seed=lot.getrandbits(32),
            )
            outcome.inner = [(crash, self._outcome(crash, depth + 1)) for crash in inner]
        return outcome

    def _look(self, disk: MemoryDisk, state: Hashable) -> object:
        """Look at a recovered disk; many recoveries lead to the same one."""
        key = (disk.tree.digest(), state)
        if key not in self._looks:
            self._looks[key] = self._subject.observe(
                MemoryDisk(disk.tree), self._chapter.life, state
            )
        return self._looks[key]

    def _judge(self, facts: Hashable, path: list[Image], outcome: _Outcome, *, torn: bool) -> bool:
        """Hold an outcome, and those inside it, to what was promised; False after a loss."""
        image = path[-1]
        torn = torn or image.torn_apart
        key = (facts, image.digest, torn)
        if key not in self._judged:
            self._judged.add(key)
            self._chapter.images += 1
            self._chapter.nested += len(path) > 1
            self._sum.update(image.digest)
            try:
                if outcome.loss:
                    raise Loss(outcome.loss)
                self._subject.judge(facts, outcome.state, outcome.seen, torn=torn)
            except Loss as loss:
                return self._lose(self._shrunk(path, facts), str(loss))
        return all(
            self._judge(facts, [*path, crash], inner, torn=torn) for crash, inner in outcome.inner
        )

    def _lose(self, path: tuple[Image, ...], loss: str) -> bool:
        self._sum.update(loss.encode())
        self._chapter.failure = Failure(self._chapter.life, path, loss, self._fault)
        return False

    def _shrunk(self, path: list[Image], facts: Hashable) -> tuple[Image, ...]:
        """Make the last crash of a path plain, the ones before it being as they are."""
        outer_torn = any(crash.torn_apart for crash in path[:-1])

        def breaks(image: Image) -> bool:
            try:
                judge_disk(
                    self._subject,
                    image.disk(),
                    life=self._chapter.life,
                    facts=facts,
                    torn=outer_torn or image.torn_apart,
                )
            except Loss:
                return True
            return False

        return (*path[:-1], shrink(path[-1], breaks))


def judge_disk(
    subject: Subject, disk: MemoryDisk, *, life: str, facts: Hashable, torn: bool
) -> None:
    """Recover one disk and hold it to what was promised; raises Loss."""
    state = subject.recover(disk, life)
    seen = subject.observe(MemoryDisk(disk.tree), life, state)
    subject.judge(facts, state, seen, torn=torn)
