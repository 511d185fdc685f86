"""A collection reads the same before and after it is tended, by every way of reading."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from faulty_bucket import FaultyBucket
from tending_kit import Modelled, begun, diffs_of

from quiver.errors import DamageError, FencedError, InputError, MissingError
from quiver.ship.objects import Conflict, FolderBucket, MemoryBucket, UnclearError
from quiver.testing import ManualClock, MemoryDisk
from quiver.upsert.persist import Collection, close_all, write_run
from quiver.upsert.rows import HASH
from quiver.upsert.tending import MARKER, Limits, Tender, sweep, tend

SMALL = Limits(history=12, live_runs_max=3, past_runs_max=2, fold_rows_min=20)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryBucket:
    return MemoryBucket(clock=clock)


def names(store: MemoryBucket) -> set[str]:
    return {each.key for each in store.list("") if each.key.endswith(".arrow")}


def named(modelled: Modelled) -> set[str]:
    manifest = modelled.writer.snapshot().manifest
    return {each.name for each in (*manifest.files, *manifest.dropped)}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_whatever_is_folded_merged_and_forgotten_it_reads_as_before(kind, clock) -> None:
    memory, folder = MemoryBucket(clock=clock), FolderBucket("/c", disk=MemoryDisk())
    store = memory if kind == "memory" else folder
    modelled = begun(store)
    folded = merged = 0
    for _ in range(30):
        modelled.append()
        before = modelled.writer.snapshot()
        done = tend(modelled.writer, SMALL, clock=clock)
        folded, merged = folded + done.folded, merged + done.merged
        after = modelled.writer.snapshot()
        modelled.check(after, step=5)
        assert done.since == after.since
    modelled.check(after)
    modelled.check(before)  # Nothing of it was deleted: it is read as it was.
    assert folded > 3
    assert merged > 6
    assert after.since >= 30 - 12 - 1
    assert len(after.files) <= after.buckets * (1 + 3 + 2 + 3)


def test_nothing_is_changed_where_nothing_is_due(store, clock) -> None:
    modelled = begun(store)
    modelled.append()
    before = bytes(store.get("manifest").data), names(store)
    done = tend(modelled.writer, SMALL, clock=clock)
    assert (done.folded, done.merged, done.dropped, done.deleted, done.left) == (0, 0, 0, 0, 0)
    assert (bytes(store.get("manifest").data), names(store)) == before
    assert not list(store.list(MARKER))


def test_a_dry_run_says_what_is_due_and_changes_nothing(store, clock) -> None:
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    before = {each.key: bytes(store.get(each.key).data) for each in store.list("")}
    said = tend(modelled.writer, SMALL, clock=clock, dry_run=True)
    assert {each.key: bytes(store.get(each.key).data) for each in store.list("")} == before
    assert said.folded == 2
    assert said == tend(modelled.writer, SMALL, clock=clock)


def test_what_is_too_much_at_a_time_is_left_for_the_next(store, clock) -> None:
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    limits = Limits(live_runs_max=3, fold_rows_min=20, rows_max=1)
    first = tend(modelled.writer, limits, clock=clock)
    second = tend(modelled.writer, limits, clock=clock)
    assert [(each.folded, each.left) for each in (first, second)] == [(1, 1), (1, 0)]
    modelled.check(modelled.writer.snapshot())


def test_a_dropped_file_is_deleted_a_grace_later_by_the_clock_of_the_store(store) -> None:
    modelled = begun(store)
    local = ManualClock()
    for _ in range(15):
        modelled.append()
    before = modelled.writer.snapshot()
    assert tend(modelled.writer, SMALL, grace="10m", clock=local).dropped > 0
    local.step("1h")
    assert tend(modelled.writer, SMALL, grace="10m", clock=local).deleted == 0
    gone = {each.name for each in modelled.writer.snapshot().manifest.dropped}
    modelled.check(before)
    store_clock(store).step("10m")
    done = tend(modelled.writer, SMALL, grace="10m", clock=local)
    assert done.deleted == len(gone)
    assert not gone & names(store)
    assert modelled.writer.snapshot().manifest.dropped == ()
    modelled.check(modelled.writer.snapshot())
    close_all()
    with pytest.raises(MissingError, match="a file of the collection is gone"):
        modelled.check(before)


class KeepingBucket(MemoryBucket):
    """Deletes nothing while ``keeps``: who writes it has no right to."""

    keeps = True

    def delete(self, keys):
        return list(keys) if self.keeps else super().delete(keys)


def test_names_of_files_that_cannot_be_deleted_do_not_fill_the_manifest(clock, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[tend.__module__], "FAILED_MAX", 2)
    store = KeepingBucket(clock=clock)
    modelled = begun(store)
    for _ in range(4):
        for _ in range(15):
            modelled.append()
        tend(modelled.writer, SMALL, grace="10m", clock=clock)
        clock.step("10m")
    while (done := tend(modelled.writer, SMALL, grace="10m", clock=clock)).dropped:
        clock.step("10m")
    assert done.deleted == 0
    assert len(modelled.writer.snapshot().manifest.dropped) == 2
    left = names(store) - named(modelled)
    assert len(left) > 10
    store.keeps = False
    clock.jump_to(time.time_ns())
    clock.step("10m")
    assert set(sweep(modelled.writer, grace="10m", clock=clock).keys) == left
    assert tend(modelled.writer, SMALL, grace="10m", clock=clock).deleted == 2
    modelled.check(modelled.writer.snapshot())
    assert names(store) == {ref.name for ref in modelled.writer.snapshot().files}


def store_clock(store: MemoryBucket) -> ManualClock:
    found = store._objects.clock
    assert isinstance(found, ManualClock)
    return found


def test_a_time_of_dropping_that_is_yet_to_come_is_set_to_now(store, clock) -> None:
    modelled = begun(store)
    clock.jump_to(4_000_000_000_000_000_000)
    for _ in range(15):
        modelled.append()
    tend(modelled.writer, SMALL, clock=clock)
    clock.jump_to(1_700_000_000_000_000_000)
    for _ in range(15):
        modelled.append()
    assert tend(modelled.writer, SMALL, grace="10m", clock=clock).deleted == 0
    gone = {each.name for each in modelled.writer.snapshot().manifest.dropped}
    clock.step("10m")
    assert tend(modelled.writer, SMALL, grace="10m", clock=clock).deleted == len(gone)
    assert not gone & names(store)


def test_an_answer_that_is_lost_does_nothing_twice() -> None:
    for fault in ("lost", "missed", "late", "repeated", "refused"):
        store = FaultyBucket()
        modelled = begun(store)
        for _ in range(15):
            modelled.append()
        store.faults.append(fault)
        tend(modelled.writer, SMALL)
        store.arrive()
        snapshot = modelled.writer.snapshot()
        modelled.check(snapshot, step=4)
        dropped = [each.name for each in snapshot.manifest.dropped]
        assert len(dropped) == len(set(dropped)) > 0
        assert {each.name for each in snapshot.files} <= names(store)


def test_an_append_may_come_in_between(store: MemoryBucket, clock: ManualClock) -> None:
    store = FaultyBucket()
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    store.meanwhile = [modelled.append]
    done = tend(modelled.writer, SMALL, clock=clock)
    assert done.folded == 2
    assert not store.meanwhile
    modelled.check(modelled.writer.snapshot())
    assert modelled.writer.snapshot().upper == 17


def test_the_same_may_be_done_by_another_thread_in_between() -> None:
    store = FaultyBucket()
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    store.meanwhile = [lambda: tend(modelled.writer, SMALL)]
    tend(modelled.writer, SMALL)
    snapshot = modelled.writer.snapshot()
    modelled.check(snapshot)
    bases = [ref for ref in snapshot.files if ref.kind == "base"]
    assert [ref.bucket for ref in bases] == [0, 1]
    left = names(store) - named(modelled)
    assert len(left) == 2


def test_who_is_fenced_changes_nothing_any_more(store, clock) -> None:
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    before = modelled.writer.snapshot()
    Collection.open(store).writer()
    for act in (tend, sweep):
        with pytest.raises(FencedError):
            act(modelled.writer, clock=clock)
    assert Collection.open(store).snapshot().files == before.files


def test_a_damaged_file_is_not_folded_into_a_sound_one(store, clock) -> None:
    modelled = begun(store)
    for _ in range(15):
        modelled.append()
    close_all()
    ref = modelled.writer.snapshot().files[0]
    data = bytearray(store.get(ref.name).data)
    data[len(data) // 2] ^= 1
    store.put(ref.name, bytes(data))
    before = modelled.writer.snapshot().manifest
    with pytest.raises(DamageError, match=ref.name):
        tend(modelled.writer, SMALL, clock=clock)
    assert modelled.writer.snapshot().manifest == before


# the look for garbage ----------------------------------------------------------------------------


def test_what_nobody_names_goes_a_grace_after_it_was_put(store, clock) -> None:
    modelled = begun(store)
    modelled.append()
    mine = names(store)
    orphan = f"runs/{'0' * 25}1.arrow"
    future = f"bases/7{'Z' * 25}.arrow"
    foreign = {"runs/x.arrow", f"other/{'0' * 26}.arrow", f"runs/{'0' * 26}.tmp", "notes"}
    foreign |= {
        "probe/report",
        "probe/manifest",
        f"probe/runs/{'0' * 26}.arrow",
    }  # Another collection.
    probed = f"probe/{'0f' * 16}-a"
    for key in (orphan, future, probed, *foreign):
        store.put(key, b"x" * 10)
    assert sweep(modelled.writer, grace="10m", clock=clock).deleted == 0
    clock.step("10m")
    said = sweep(modelled.writer, grace="10m", clock=clock, dry_run=True)
    assert {orphan, future} <= names(store)
    done = sweep(modelled.writer, grace="10m", clock=clock)
    assert said == done
    assert (done.deleted, done.deleted_bytes, done.failed) == (3, 30, 0)
    assert set(done.keys) == {orphan, future, probed}
    assert {each.key for each in store.list("")} == mine | foreign | {"manifest", MARKER}


class SlowBucket(MemoryBucket):
    """Conditional puts are under way for as long as ``holds``."""

    holds = False

    def put_if(self, key, data, tag):
        if self.holds:
            self.held.append((key, data, tag))
            raise UnclearError("no answer", path=key)
        return super().put_if(key, data, tag)


def test_an_append_that_comes_in_late_does_not_name_what_was_swept(clock) -> None:
    store = SlowBucket(clock=clock)
    store.held = []
    modelled = begun(store, clock=clock)
    modelled.append()
    store.holds = True
    with pytest.raises(UnclearError):
        modelled.append()
    store.holds = False
    clock.jump_to(time.time_ns())
    clock.step("10m")
    assert sweep(modelled.writer, grace="10m", clock=clock).deleted == 2
    for key, data, tag in store.held:
        with pytest.raises(Conflict):
            store.put_if(key, data, tag)
    modelled.check(modelled.writer.snapshot())


def test_a_run_that_was_swept_before_it_was_appended_is_refused(store, clock) -> None:
    modelled = begun(store, clock=clock)
    modelled.append()
    writer, clock_of_names = modelled.writer, ManualClock()
    snapshot = writer.snapshot()
    rows = diffs_of([(snapshot.upper, 1, 1, 1)], snapshot.definition)
    bucket = rows[HASH][0].as_py() % snapshot.buckets
    run = write_run(store, snapshot, rows, bucket=bucket, clock=clock_of_names)
    clock.step("1h")
    assert sweep(writer, grace="10m", clock=clock).keys == (run.name,)
    with pytest.raises(InputError, match="was swept"):
        writer.append([run], snapshot.upper)
    with pytest.raises(InputError, match="was swept"):
        writer.change(lambda now: replace(now.manifest, upper=now.upper + 1, files=(run,)))
    modelled.append()
    modelled.check(writer.snapshot())


def test_a_file_that_was_minted_a_moment_ago_stays_whatever_the_store_says(store, clock) -> None:
    modelled = begun(store)
    modelled.append()
    [ref, *_] = modelled.writer.snapshot().files
    orphan = ref.name
    other = begun(MemoryBucket(clock=clock))
    other.writer.store.put(orphan, b"x")
    clock.step("1h")
    minted = ManualClock()
    minted.jump_to(_minted_ns(orphan) + 1_000_000)
    assert sweep(other.writer, grace="10m", clock=minted).deleted == 0
    minted.step("10m")
    assert sweep(other.writer, grace="10m", clock=minted).deleted == 1


def _minted_ns(name: str) -> int:
    from quiver.ship.batch import name_time_ms

    found = name_time_ms(name.partition("/")[2], ending=".arrow")
    assert found is not None
    return found * 1_000_000


def test_a_tender_looks_for_garbage_first_and_then_once_in_an_interval(store, clock) -> None:
    modelled = begun(store)
    modelled.append()
    clock.step("1h")
    tender = Tender(modelled.writer, SMALL, grace="1s", sweep_interval="30m", clock=clock)
    for step, left in (("0s", False), ("29m", True), ("2m", False)):
        store.put(f"runs/{'0' * 26}.arrow", b"x")
        clock.step(step)
        clock.step("2s")
        tender.tend()
        assert (f"runs/{'0' * 26}.arrow" in names(store)) is left
