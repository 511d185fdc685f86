"""Killed at any act, or without power at any moment: the batch is in once, as a whole, or not."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from sink_kit import batch, let_in, opened, rows, segments, stage

from quiver.disk import Disk, replace
from quiver.engine import intake, intake_journal
from quiver.errors import DamageError, QuiverError, VersionError
from quiver.sink import Job
from quiver.sink import commits as commit_room
from quiver.testing import Killed, MemoryDisk, Model, crash_images

BEFORE = [0, 1, 2]
BATCH = [10, 11, 12, 13]
KNOBS = {"segment": {"target_size": "40KiB"}}
MANY = 800
"""How often each value of a large file is in it."""
EVERY_ACT = os.environ.get("QUIVER_SINK") == "all"
"""``make crash`` asks for it; otherwise each ninth act, and all of those that decide."""


def prepared() -> MemoryDisk:
    """A store whose log has a bundle that is in no segment, and one batch of the sink."""
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    job = Job("old", "sink", 6)
    let_in(disk, job, stage(disk, job, "a", [1]))
    store = opened(disk)
    store.append({"events": batch(2)})
    store._core.held.release()
    store._closed = True
    return MemoryDisk(disk.tree)


def write(disk: Disk, name: str = "run", batch_id: int = 7) -> None:
    """What a whole batch is: tasks stage, the driver commits; two segments come of it."""
    job = Job(name, "sink", batch_id)
    big = stage(disk, job, "b", BATCH[2:] * MANY, per_bundle=MANY, **KNOBS)
    parts = [stage(disk, job, "a", BATCH[:1], **KNOBS), stage(disk, job, "c", BATCH[1:2], **KNOBS)]
    let_in(disk, job, *parts, big, **KNOBS)


def seen(disk: Disk) -> list[int]:
    """What is visible: each of these values once, or as often as it was staged."""
    found = rows(disk)
    for value in set(found):
        assert found.count(value) in (1, MANY), f"{value} is there {found.count(value)} times"
    return sorted(set(found))


def recovered(disk: Disk) -> bool:
    """Open it as somebody who knows of no sink; whether the batch is in, which is whole then."""
    with opened(disk) as store:
        for error in store.recovery.damage:  # A torn sector of a log is set aside, and told.
            assert "/wal/" in error.path or "/acks/" in error.path, error
    found = seen(disk)
    assert found in (BEFORE, BEFORE + BATCH)
    assert not [e for e in disk.list_dir("core_0/segments") if not e.name.endswith(".qseg")]
    assert disk.stat("core_0/intake.json") is None
    return found != BEFORE


def check_left(disk: Disk, *, by_driver: bool) -> bool:
    """Look at what is there, end it one of two ways, and let the driver repeat its batch."""
    assert set(seen(disk)) <= {*BEFORE, *BATCH}
    is_in = None if by_driver else recovered(disk)
    numbers = set(segments(disk))
    write(disk, "again")
    assert recovered(disk)
    assert numbers <= set(segments(disk))
    if is_in:
        assert numbers == set(segments(disk))
    write(disk, "next", 8)
    assert len(rows(disk)) == len(BEFORE) + 2 * (2 + 2 * MANY)
    return bool(is_in)


def acts_that_decide(disk: MemoryDisk) -> range:
    """The acts from the journal to its end."""
    paths = [getattr(op, "path", "") for op in disk.history.ops]
    journal = [n for n, path in enumerate(paths) if "intake.json" in path]
    return range(journal[0], journal[-1] + 2) if journal else range(0)


def test_killed_at_any_act_it_is_in_once_whoever_goes_on() -> None:
    base = prepared()
    disk = MemoryDisk(base.tree)
    write(disk)
    acts = disk.act_count
    assert recovered(disk)
    assert acts > 60
    found = set()
    deciding = acts_that_decide(disk)
    rest = [act for act in range(acts) if act not in deciding]
    for act in [*deciding, *rest[:: 1 if EVERY_ACT else 9]]:
        disk = MemoryDisk(base.tree)
        disk.fail(act, error="kill")
        with pytest.raises(Killed):
            write(disk)
        disk.heal()
        disk.forget_locks()
        if EVERY_ACT or act % 2:
            check_left(MemoryDisk(disk.tree), by_driver=True)
        if EVERY_ACT or not act % 2:
            found.add(check_left(disk, by_driver=False))
    assert found == {False, True}


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_disk_that_refuses_an_act_leaves_it_in_or_out(error) -> None:
    base = prepared()
    disk = MemoryDisk(base.tree)
    write(disk)
    for act in range(0, disk.act_count, 1 if EVERY_ACT else 11):
        disk = MemoryDisk(base.tree)
        disk.fail(act, error=error)
        with suppress(QuiverError):
            write(disk)
        disk.heal()
        check_left(disk, by_driver=act % 2 == 0)


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_power_cut_leaves_it_in_or_out(model: Model) -> None:
    disk = prepared()
    write(disk)
    images = crash_images(disk.history, model=model, budget=400 if EVERY_ACT else 12)
    found = {check_left(MemoryDisk(i.tree), by_driver=n % 3 == 2) for n, i in enumerate(images)}
    assert found == {False, True}


def test_a_power_cut_while_somebody_else_finishes_it() -> None:
    """The driver was killed behind the decision; recovery is cut short, and another one goes on."""
    base = prepared()
    disk = MemoryDisk(base.tree)
    write(disk)
    for act in reversed(range(disk.act_count)):
        disk = MemoryDisk(base.tree)
        disk.fail(act, error="kill")
        with pytest.raises(Killed):
            write(disk)
        disk.heal()
        disk.forget_locks()
        if disk.stat("core_0/intake.json") is not None and len(rows(disk)) == len(BEFORE):
            break
    decided = MemoryDisk(disk.tree)
    assert recovered(decided)
    for image in crash_images(decided.history, model="posix", budget=300 if EVERY_ACT else 10):
        left = MemoryDisk(image.tree)
        assert recovered(left)
        write(left, "again")
        assert len(rows(left)) == len(BEFORE) + 2 + 2 * MANY


def test_numbers_of_a_batch_that_is_damaged_later_are_not_given_again() -> None:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    job = Job("run", "sink", 7)
    let_in(disk, job, stage(disk, job, "a", BATCH))
    assert rows(disk) == [0, *BATCH]
    path = "core_0/segments/0000000000000001.qseg"
    file = disk.open(path, writable=True)
    file.write(file.size() - 16, bytes(16))
    file.close()
    with opened(disk) as store:
        assert len(store.recovery.damage) == 1
        assert store.append({"events": batch(20)}) == 1 + len(BATCH) // 2


def test_a_damaged_journal_was_a_decision_all_the_same() -> None:
    disk = prepared()
    settle = intake.settle_intake
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "settle_intake", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(disk)
    assert settle is intake.settle_intake
    disk.forget_locks()
    file = disk.open("core_0/intake.json", writable=True)
    for place in (30, 30 + file.size() // 2):
        file.write(place, b"\0")
    with opened(disk) as store:
        assert [str(error) for error in store.recovery.damage if "cannot be read" in str(error)]
    assert seen(disk) == BEFORE + BATCH
    assert any("intake" in e.name for e in disk.list_dir("core_0/quarantine"))


FIELDS = {"sink": "a", "batch_id": 1, "segment_seqs": [], "row_count": 0, "staged": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {"staged": ["quiver.json"]},
        {"staged": ["staging/../core_0/segments/0000000000000000.qseg"]},
        {"staged": [7]},
        {"staged": None},
        {"sink": "../victim"},
        {"sink": 3},
        {"segment_seqs": ["x"]},
        {"segment_seqs": [-1]},
        {"batch_id": "1"},
        {"more": 1},
    ],
)
def test_a_journal_that_nobody_of_us_wrote_is_damage_and_touches_nothing_else(wrong) -> None:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    replace(disk, "core_0/intake.json", intake_journal._encode({**FIELDS, **wrong}))
    with opened(disk) as store:
        assert [error.path for error in store.recovery.damage] == ["memory:/core_0/intake.json"]
    assert rows(disk) == [0]
    assert disk.stat("quiver.json") is not None
    assert disk.stat("sinks") is None


def test_a_journal_of_a_newer_format_stays(monkeypatch) -> None:
    disk = MemoryDisk()
    opened(disk).close()
    with monkeypatch.context() as patch:
        patch.setattr(intake_journal, "_FORMAT", 2)
        replace(disk, "core_0/intake.json", intake_journal._encode({**FIELDS, "new": 1}))
    with pytest.raises(VersionError, match="format 2"):
        opened(disk)
    assert disk.stat("core_0/intake.json") is not None


def no_decision(monkeypatch) -> None:
    monkeypatch.setattr(intake, "decide", lambda *_: None)


def no_record(monkeypatch) -> None:
    monkeypatch.setattr(intake_journal, "_write_done", lambda *_: None)


def no_settling_before(monkeypatch) -> None:
    monkeypatch.setattr(commit_room, "settle_cores", lambda *_: None)


def no_look_at_the_record(monkeypatch) -> None:
    monkeypatch.setattr(commit_room, "read_done", lambda *_: None)


def journal_first(monkeypatch) -> None:
    """Take the journal away before the record is there."""
    write_done = intake_journal._write_done

    def wrong(disk, number, taken) -> None:
        disk.unlink("core_0/intake.json")
        disk.sync_dir("core_0")
        write_done(disk, number, taken)
        intake_journal.decide(disk, number, taken)

    monkeypatch.setattr(intake_journal, "_write_done", wrong)


def finalize_last(monkeypatch) -> None:
    """Give the staged bundles numbers below those that the log still has."""
    monkeypatch.setattr(intake, "finalize", lambda *_: None)


@pytest.mark.parametrize(
    "plant",
    [
        no_decision,
        no_record,
        no_settling_before,
        no_look_at_the_record,
        journal_first,
        finalize_last,
    ],
)
def test_a_planted_defect_is_found(plant, monkeypatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, DamageError)):
        test_killed_at_any_act_it_is_in_once_whoever_goes_on()
