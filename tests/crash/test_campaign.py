"""The harness over the real store: every life, each cut, each recovery, each failing act.

Plain runs look at a tenth of what ``QUIVER_CAMPAIGN=all`` does in each life (make crash).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import pytest

from quiver.engine import dropping, space
from quiver.engine.core import Core
from quiver.errors import InputError
from quiver.testing.acts import Mark
from quiver.testing.campaign import FAULT_KINDS, MODELS, Campaign, Plan
from quiver.testing.lives import LIVES
from quiver.testing.lossy import LOSSY
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.oracle import QuiverSubject
from quiver.testing.recorder import FaultKind
from quiver.testing.runner import QUIVER, Summary, load_subject, run
from quiver.testing.subject import Loss

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")

BY_LOT = 2
IS_WHOLE = os.environ.get("QUIVER_CAMPAIGN") == "all"
PLAN = Plan(
    images_per_life=5, nested_share=0.5, nested_images=3, faults_per_life=2, cuts_per_fault=1
)
KINDS: tuple[FaultKind, ...] = ("EIO",)
if IS_WHOLE:
    PLAN, KINDS = Plan(images_per_life=45, faults_per_life=11), FAULT_KINDS


@pytest.mark.parametrize("life", QuiverSubject(by_lot=BY_LOT).lives)
def test_nothing_that_was_promised_is_lost(life: str) -> None:
    chapter = Campaign(QuiverSubject(), PLAN).tell(life)
    assert chapter.failure is None, str(chapter.failure)
    assert chapter.images > PLAN.images_per_life * 2 // 3
    assert chapter.nested > (10 if IS_WHOLE else 1)
    assert chapter.faults == PLAN.faults_per_life


@pytest.mark.slow
def test_every_act_of_a_life_may_fail() -> None:
    plan = Plan(
        images_per_life=1, faults_per_life=10_000, fault_kinds=KINDS, cuts_per_fault=1, depth=1
    )
    chapter = Campaign(QuiverSubject(), plan).tell("append and finalize")
    assert chapter.failure is None, str(chapter.failure)
    ways = 2 * len(KINDS) - 1  # A kill comes once, the others once and from then on.
    assert chapter.faults > 70 * ways
    assert chapter.faults % ways == 0


def test_lives_by_lot_do_all_that_a_store_can_do() -> None:
    seen = set()
    for life in QuiverSubject(by_lot=30).lives[len(LIVES) :]:
        disk = MemoryDisk()
        QuiverSubject().live(life, disk)
        for op in disk.history.ops:
            path = getattr(op, "path", "").removeprefix("core_0/").rsplit(".", 1)[0]
            seen.add(f"{type(op).__name__} {path}".rstrip("0123456789 "))
    assert {
        "Rename wal/quiver.wal",
        "Punch wal/quiver",
        "Unlink wal/quiver.wal",
        "Rename wal/truncate",
        "Rename acks/checkpoint",
        "Rename acks/ack",
        "Unlink segments/",
    } <= seen | {f"{op}." for op in seen}


@pytest.mark.parametrize(
    "life", [*(life for life in LOSSY if life != "keep some"), "share the cap"]
)
def test_a_life_that_may_lose_something_does(life: str) -> None:
    lost: list[str] = []
    of_segment, of_open = space.write_off_segment, dropping.write_off_open

    def write_off_segment(core: Core, segment_seq: int, reason: int) -> dict[str, int]:
        lost.append("segment")
        return of_segment(core, segment_seq, reason)

    def write_off_open(core: Core) -> None:
        lost.append("open")
        of_open(core)

    with (
        mock.patch.object(space, "write_off_segment", write_off_segment),
        mock.patch.object(dropping, "write_off_open", write_off_open),
    ):
        QuiverSubject().live(life, MemoryDisk())
    if life == "drop what is open":
        assert lost == ["open", "segment", "open"]
    else:
        assert "segment" in lost


@pytest.mark.slow
def test_equal_plans_find_equal_things_on_any_number_of_processes() -> None:
    told: list[list[str]] = [[], []]
    plan = Plan(images_per_life=4, nested_images=2, faults_per_life=1)
    summaries: list[Summary] = []
    for workers, lives in zip((1, 2), told, strict=True):
        summaries.append(
            run(QUIVER, plan, images=60, workers=workers, told=lambda c, n=lives: n.append(c.life))
        )
    assert told[0] == told[1]
    assert len(told[0]) > 2
    assert summaries[0].digest == summaries[1].digest
    assert summaries[0].images == summaries[1].images >= 60
    other = run(QUIVER, replace(plan, seed=5), images=60)
    assert other.digest != summaries[0].digest


class Notebook:
    """A store for the harness to judge that is not Quiver: lines in a file, each synced."""

    lives: Sequence[str] = ("three lines",)

    def __init__(self, *, sync: bool = True) -> None:
        self.sync = sync

    def live(self, name: str, stage: MemoryDisk) -> None:
        if stage.stat("notes") is None:
            stage.create("notes").close()
            stage.sync_dir("")
        for line in name.split():
            file = stage.open("notes", writable=True)
            file.write(file.size(), f"{line}\n".encode())
            if self.sync:
                file.sync()
            file.close()
            stage.mark("noted", line=line)

    def facts(self, marks: Sequence[Mark]) -> tuple[str, ...]:
        return tuple(str(mark["line"]) for mark in marks if mark.label == "noted")

    def recover(self, disk: MemoryDisk, life: str) -> str:
        return "" if disk.stat("notes") is None else bytes(disk.map("notes")).decode("latin-1")

    def observe(self, disk: MemoryDisk, life: str, state: str) -> list[str]:
        return state.splitlines()

    def judge(self, facts: tuple[str, ...], state: str, seen: list[str], *, torn: bool) -> None:
        if not torn and tuple(seen[: len(facts)]) != facts:
            raise Loss(f"{facts} were noted, and there is {state!r}")


def test_another_store_may_be_judged_too() -> None:
    plan = Plan(faults_per_life=0)
    assert Campaign(Notebook(), plan).tell("three lines").failure is None
    failure = Campaign(Notebook(sync=False), plan).tell("three lines").failure
    assert failure is not None
    [image] = failure.images
    assert len(image.pending) - len(image.kept) == 1, "one lost act is enough to break it"
    assert "lost" in str(failure)
    assert str(failure).startswith("('three',) were noted")


@pytest.mark.parametrize("name", ["no_such_module:thing", "os:getcwd", "os:sep", "operator:neg"])
def test_a_subject_that_is_none_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"no subject.*{name}|{name}.*no subject"):
        load_subject(name, 0)


def test_both_models_are_tried() -> None:
    assert MODELS == Plan().models == ("posix", "journaled")
