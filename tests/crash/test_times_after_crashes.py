"""No crash lets the times of a core fall: kills, power cuts, failing disks, in every order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from store_kit import SLOTS, abandon, bundle

import quiver
from quiver.disk import Disk
from quiver.engine import timekeeping
from quiver.errors import QuiverError
from quiver.testing import Campaign, Loss, ManualClock, Plan
from quiver.testing.acts import Mark
from quiver.testing.lives import TINY

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome")
EARLY = 1_000


class Timekeeper:
    """Stores whose clock is set back before each opening."""

    lives = ("writer", "caller")

    def open(self, disk: Disk, life: str, wall_ns: int) -> quiver.Store:
        config = {**TINY, "segment": {"time": life, "target_size": 1500}}
        clock = ManualClock(wall_ns=wall_ns)
        return quiver.open(
            "m", slots=SLOTS, core=0, disk=disk, clock=clock, config=config, worker=False
        )

    def append(self, store: quiver.Store, life: str, time: int) -> int:
        store.append(bundle(1), time=time if life == "caller" else None)
        last_ns = store._core.times.last_ns
        assert last_ns is not None
        return last_ns

    def live(self, name: str, stage: Any) -> None:
        last = 10_000
        for wall_ns in (10_000, EARLY, EARLY):
            store = self.open(stage, name, wall_ns)
            with suppress(QuiverError):
                for _ in range(3):
                    last = self.append(store, name, last + 2)
                    stage.mark("bundle", ns=last)
                subscription = store.subscribe("reader")
                store.finalize()
                while (handle := subscription.poll()) is not None:
                    handle.ack()
                store.maintain()
            if wall_ns == EARLY:
                with suppress(QuiverError):
                    store.close()
            abandon(store)

    def facts(self, marks: Sequence[Mark]) -> int:
        return max((dict(mark.facts)["ns"] for mark in marks if mark.label == "bundle"), default=0)

    def recover(self, disk: Disk, life: str) -> int:
        store = self.open(disk, life, EARLY)
        least_ns = store._core.times.least_ns
        abandon(store)
        return least_ns

    def observe(self, disk: Disk, life: str, state: int) -> int:
        store = self.open(disk, life, EARLY)
        ns = self.append(store, life, max(state, store._core.times.least_ns))
        store.finalize()
        ranges = [(i.ingestion_ns_min or 0, i.ingestion_ns_max or 0) for i in store._core.catalog]
        if not all(a[1] <= b[0] for a, b in pairwise(ranges)):
            raise Loss(f"blocks overlap: {ranges}")
        abandon(store)
        return ns

    def judge(self, facts: int, state: int, seen: int, *, torn: bool) -> None:
        if min(state, seen) < facts:
            raise Loss(f"{facts} was the time of a bundle, and {min(state, seen)} came behind it")


def losses(life: str) -> list[str]:
    plan = Plan(images_per_life=150, depth=1, faults_per_life=12)
    failure = Campaign(Timekeeper(), plan).tell(life).failure
    return [] if failure is None else [str(failure)]


@pytest.mark.parametrize("life", Timekeeper.lives)
def test_times_go_on_behind_those_that_were_told(life: str) -> None:
    assert losses(life) == []


def nothing(*_: object) -> None:
    return


@pytest.mark.parametrize("name", ["keep_times", "start_times"])
def test_the_harness_finds_what_forgets_the_times(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("space", "dropping", "recovery"):
        monkeypatch.setattr(f"quiver.engine.{module}.{name}", nothing, raising=False)
    assert hasattr(timekeeping, name)
    assert losses("writer")
