"""The power goes at each act of a collection that is tended; every snapshot stays readable.

``QUIVER_UPSERT_IMAGES`` says how many images of it are looked at: ``make crash`` sets it.
"""

from __future__ import annotations

import os

import pytest
from tending_kit import Modelled, begun

from quiver.errors import MissingError, QuiverError
from quiver.ship.objects import FolderBucket
from quiver.testing import MemoryDisk, crash_images
from quiver.upsert.persist import Collection, close_all
from quiver.upsert.tending import Limits, sweep, tend

LIMITS = Limits(history=4, live_runs_max=2, past_runs_max=1, fold_rows_min=12)
EPOCHS = 9
STEP = 1 if "QUIVER_UPSERT_IMAGES" in os.environ else 8
IMAGES = int(os.environ.get("QUIVER_UPSERT_IMAGES", "40"))


@pytest.fixture(scope="module")
def life() -> tuple[MemoryDisk, Modelled, list[tuple[int, int, int]]]:
    """Append and tend with no grace at all; gives what was promised after how many acts."""
    disk = MemoryDisk()
    modelled = begun(FolderBucket("/c", disk=disk))
    promised = []
    folded = merged = deleted = 0
    for _ in range(EPOCHS):
        epoch = modelled.append(6)
        promised.append((len(disk.history.ops), epoch, modelled.writer.snapshot().since))
        done = tend(modelled.writer, LIMITS, grace="0s")
        promised.append((len(disk.history.ops), epoch, modelled.writer.snapshot().since))
        folded, merged, deleted = folded + done.folded, merged + done.merged, deleted + done.deleted
    assert folded > 2
    assert merged > 2
    assert deleted > 4
    return disk, modelled, promised


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_after_a_power_cut_each_epoch_that_can_be_read_reads_as_it_was(life, model) -> None:
    disk, modelled, promised = life
    uppers = set()
    for image in crash_images(disk.history, model=model, budget=IMAGES):
        close_all()
        store = FolderBucket("/c", disk=image.disk())
        least = max((promise for promise in promised if promise[0] <= image.point), default=None)
        try:
            writer = Collection.open(store).writer()
        except MissingError:
            assert least is None
            continue
        snapshot = writer.snapshot()
        if least is not None:
            assert least[1] < snapshot.upper <= least[1] + 2
            assert snapshot.since >= least[2]
        modelled.at(writer).check(snapshot, step=3)
        uppers.add(snapshot.upper)
    assert len(uppers) > EPOCHS // 2


def test_after_a_power_cut_it_is_tended_to_the_end_and_nothing_is_left_over(life) -> None:
    disk, modelled, _ = life
    for image in crash_images(disk.history, model="posix", budget=20, seed=1):
        close_all()
        store = FolderBucket("/c", disk=image.disk())
        try:
            writer = Collection.open(store).writer()
        except MissingError:
            continue
        before = writer.snapshot().upper
        for _ in range(4):
            tend(writer, LIMITS, grace="0s")
        sweep(writer, grace="0s")
        snapshot = writer.snapshot()
        assert snapshot.upper == before
        assert snapshot.manifest.dropped == ()
        there = {each.key for each in store.list("") if each.key.endswith(".arrow")}
        assert there == {ref.name for ref in snapshot.files}
        modelled.at(writer).check(snapshot)


def test_each_act_may_be_refused_and_the_next_time_does_it() -> None:
    start = MemoryDisk()
    begun_there = begun(FolderBucket("/c", disk=start))
    for _ in range(6):
        begun_there.append(4)
    failed = 0
    for act in range(0, 400, STEP):
        close_all()
        disk = MemoryDisk(start.tree)
        writer = Collection.open(FolderBucket("/c", disk=disk)).writer()
        modelled = begun_there.at(writer)
        fault = disk.fail(disk.act_count + act)
        try:
            tend(modelled.writer, LIMITS, grace="0s")
        except QuiverError:
            failed += 1
        if not fault.hits:
            break
        disk.heal()
        modelled.check(modelled.writer.snapshot(), step=3)
        tend(modelled.writer, LIMITS, grace="0s")
        tend(modelled.writer, LIMITS, grace="0s")
        sweep(modelled.writer, grace="0s")
        modelled.check(modelled.writer.snapshot(), step=3)
    assert failed > 20 // STEP
