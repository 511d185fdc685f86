"""The sweeper: what goes, what stays, and clocks that are wrong (scenarios 49 to 56, 63 and 65)."""

from __future__ import annotations

import threading

import pytest
from ends_kit import GRACE_MS, WAIT, Rig, records

from quiver.errors import FencedError, MissingError, RemoteError
from quiver.metrics import SHIP_CATALOGUE, Metrics
from quiver.ship.batch import mint_name
from quiver.ship.objects import Listed
from quiver.ship.queue import Batch, NewEntry, QueueOptions, Span
from quiver.ship.sweeper import Sweeper, SweeperTask, Swept
from quiver.ship.sweeper.rules import Times, candidates, doomed, oldest_of
from quiver.testing import ManualClock
from quiver.units import MILLISECOND, SECOND

DAY_MS = 86_400_000


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def sweeper(rig: Rig, **options) -> Sweeper:
    return Sweeper(rig.queue(), grace_ns=GRACE_MS * MILLISECOND, clock=rig.clock, **options)


def sweep(rig: Rig, **options) -> Swept:
    return sweeper(rig).sweep(**options)


def test_49_an_old_orphan_goes(rig) -> None:
    rig.consumer()
    key = rig.upload(b"orphan")
    rig.clock.step("10m")
    swept = sweep(rig)
    assert swept.keys == (key,)
    assert (swept.deleted_count, swept.failed_count) == (1, 0)
    assert rig.batches() == []


def test_50_what_is_named_stays(rig) -> None:
    keys = [rig.append(b"r0"), rig.append(b"r1")]
    rig.clock.step("10d")
    assert sweep(rig).deleted_count == 0
    assert rig.batches() == sorted(keys)


def test_51_what_is_younger_than_the_grace_stays(rig) -> None:
    rig.consumer()
    rig.upload(b"orphan")
    rig.clock.step("599s")
    assert sweep(rig).deleted_count == 0
    rig.clock.step("1s")
    assert sweep(rig).deleted_count == 1


def test_52_what_is_younger_than_the_oldest_entry_stays(rig) -> None:
    """It may be an upload whose append is late."""
    rig.append(b"first")
    rig.clock.step("1s")
    late = rig.upload(b"late")
    rig.clock.step("1h")
    assert sweep(rig).deleted_count == 0
    rig.append(b"late", key=late)
    consumer = rig.consumer()
    assert [records(consumer.next_batch()) for _ in range(2)] == [[b"first"], [b"late"]]


def test_53_older_orphans_go_beside_what_is_named(rig) -> None:
    old = rig.upload(b"orphan")
    rig.clock.step("1s")
    kept = rig.append(b"named")
    rig.clock.step("1h")
    assert sweep(rig).keys == (old,)
    assert rig.batches() == [kept]


def test_54_what_is_not_ours_stays(rig) -> None:
    rig.append(b"r0")
    ulid = rig.upload(b"x").removesuffix(".batch")
    strangers = [
        *(f"{ulid}.batch.tmp", f"{ulid.lower()}.batch", f"{ulid[:-1]}.batch", f"{ulid}.parquet"),
        *("notes.batch", f"deeper/{ulid}.batch", f"dead/{ulid}.batch", "8" + ulid[1:] + ".batch"),
    ]
    for name in strangers:
        rig.bucket.put(name, b"theirs")
    rig.queue().dequeue(0, epoch=rig.consumer().epoch)
    rig.clock.step("10d")
    swept = sweep(rig)
    assert swept.deleted_count == 2
    left = {each.key for each in rig.bucket.list("")}
    assert left == {"manifest", "sweeper", *strangers}


def times(store_ms: int, local_ms: int | None = None) -> Times:
    return Times(
        store_ms=store_ms, local_ms=store_ms if local_ms is None else local_ms, grace_ms=GRACE_MS
    )


def named(minted_ms: int, ending: str = ".batch") -> str:
    return mint_name(minted_ms * MILLISECOND, bytes, ending=ending)


def test_55_times_are_read_from_names_and_bad_names_passed_over() -> None:
    key = named(5 * DAY_MS)
    listed = [Listed(key, 1, 6 * DAY_MS), Listed("x.batch", 1, 0), Listed(key + "x", 1, 0)]
    (found,) = candidates(listed, times(7 * DAY_MS)).values()
    assert (found.key, found.born_ms) == (key, 5 * DAY_MS)


def test_56_it_stops_at_once(rig) -> None:
    rig.consumer()
    for number in range(5):
        rig.upload(b"%d" % number)
    rig.clock.step("1h")
    one = sweeper(rig)
    rig.bucket.before = lambda act, key: one.stop() if act == "list" else None
    assert one.sweep().deleted_count == 0
    task = SweeperTask(sweeper(rig), interval_ns=3600 * SECOND, clock=rig.clock)
    task.stop()
    assert task.round_count == 0
    assert len(rig.batches()) == 5


def test_62_the_sweeper_of_a_zombie_ends_and_deletes_nothing(rig) -> None:
    zombie = rig.consumer(sweep_interval="5m")
    rig.upload(b"orphan")
    rig.consumer()
    rig.clock.step("1h")
    with pytest.raises(FencedError):
        sweeper(rig, epoch=zombie.epoch).sweep()
    zombie.sweeper.look()
    assert zombie.sweeper.ended.wait(WAIT)
    assert isinstance(zombie.sweeper.failure, FencedError)
    assert len(rig.batches()) == 1


def test_63_what_a_killed_producer_left_goes_after_the_grace_alone(rig) -> None:
    """Killed between its put and its append."""
    producer = rig.producer(flush_interval="1h")

    def die(act: str, key: str) -> None:
        if act == "put_if":
            raise SystemExit

    rig.bucket.before = die
    producer.produce([b"lost"])
    with pytest.raises(SystemExit):
        producer.flush(WAIT)
    rig.bucket.before = lambda act, key: None
    consumer = rig.consumer()
    assert consumer.next_batch() is None
    assert sweep(rig).deleted_count == 0
    assert len(rig.batches()) == 1
    rig.clock.step("10m")
    assert sweep(rig).deleted_count == 1


@pytest.mark.parametrize("skew_ms", [-DAY_MS, -3_600_000, 3_600_000, DAY_MS, 20 * 365 * DAY_MS])
def test_65_a_producer_whose_clock_is_wrong_loses_nothing_and_leaves_nothing(rig, skew_ms) -> None:
    rig.consumer()
    fresh = rig.upload(b"x", minted_ms=rig.now_ms() + skew_ms)
    assert sweep(rig).deleted_count == 0  # Its append may be on its way.
    rig.clock.step("9m")
    assert sweep(rig).deleted_count == 0
    assert rig.batches() == [fresh]
    rig.append(b"x", key=fresh)
    rig.clock.step("1h")
    assert sweep(rig).deleted_count == 0
    consumer = rig.consumer()
    assert records(consumer.next_batch()) == [b"x"]
    consumer.ack_through(0)
    rig.clock.step("2h")
    assert sweep(rig).deleted_count == 1


@pytest.mark.parametrize("skew", ["-1d", "1d"])
def test_65_a_sweeper_whose_clock_is_wrong_goes_by_the_store(rig, skew) -> None:
    rig.consumer()
    rig.upload(b"orphan")
    days = -1 if skew == "-1d" else 1
    local = ManualClock(wall_ns=rig.clock.wall_ns() + days * DAY_MS * MILLISECOND)
    one = Sweeper(rig.queue(), grace_ns=GRACE_MS * MILLISECOND, clock=local)
    assert one.sweep().deleted_count == 0
    rig.clock.step("10m")
    local.step("10m")
    assert one.sweep().deleted_count == 1


def test_65_an_entry_from_a_fast_clock_keeps_what_came_after_it(rig) -> None:
    """By the time at which it changed: its name says nothing."""
    ahead = rig.upload(b"ahead", minted_ms=rig.now_ms() + 365 * DAY_MS)
    rig.append(b"ahead", key=ahead)
    rig.clock.step("1s")
    late = rig.upload(b"late")
    rig.clock.step("1h")
    assert sweep(rig).deleted_count == 0
    assert late in rig.batches()


def test_a_dry_run_changes_nothing_and_says_what_would_go(rig) -> None:
    rig.consumer()
    key = rig.upload(b"orphan")
    rig.clock.step("1h")
    before = {each.key: each.changed_ms for each in rig.bucket.list("")}
    swept = sweep(rig, dry_run=True)
    assert swept.keys == (key,)
    assert swept.deleted_bytes == len(rig.bucket.get(key).data)
    assert {each.key: each.changed_ms for each in rig.bucket.list("")} == before


def test_without_a_manifest_nothing_goes(rig) -> None:
    rig.upload(b"not lost")
    rig.clock.step("10d")
    with pytest.raises(MissingError):
        sweep(rig)
    assert len(rig.batches()) == 1
    assert [each.key for each in rig.bucket.list("sweeper")] == []


def test_67_a_consumer_whose_manifest_is_gone_deletes_nothing(rig) -> None:
    rig.append(b"r0")
    consumer = rig.consumer()
    one = sweeper(rig, epoch=consumer.epoch)
    one.sweep()
    rig.bucket.delete(["manifest"])
    rig.clock.step("10d")
    for again in (one, sweeper(rig, epoch=consumer.epoch)):
        with pytest.raises((MissingError, FencedError)):
            again.sweep()
    rig.append(b"anew")
    with pytest.raises((MissingError, FencedError)):
        sweeper(rig, epoch=consumer.epoch).sweep()
    assert len(rig.batches()) == 2


def test_what_is_appended_while_it_looks_stays(rig) -> None:
    """The manifest is read behind the listing, and again before each request that deletes."""
    rig.consumer()
    first, second = rig.upload(b"first"), rig.upload(b"second")
    rig.clock.step("1h")
    listed = []

    def append_late(act: str, key: str) -> None:
        if (act, key) == ("list", "") and not listed:
            listed.append(key)
            rig.append(b"first", key=first)

    rig.bucket.after = append_late
    assert sweep(rig).deleted_count == 0  # The second is not older than the first.
    rig.bucket.after = lambda act, key: None
    consumer = rig.consumer()
    assert records(consumer.next_batch()) == [b"first"]
    consumer.ack_through(0)
    assert sweep(rig).deleted_count == 2
    assert second not in rig.batches()


def test_what_is_appended_between_two_requests_stays(rig) -> None:
    rig.consumer()
    keys = sorted(rig.upload(b"x") for _ in range(1500))
    rig.clock.step("1h")
    late = []

    def append_late(act: str, key: str) -> None:
        if act == "delete" and not late:
            late.append(next(each for each in keys if each not in key))
            rig.append(b"x", key=late[0])

    rig.bucket.before = append_late
    assert sweep(rig).deleted_count == 1000  # The others are no older than what is named now.
    assert records(rig.consumer().next_batch()) == [b"x"]


def test_the_batch_of_an_entry_that_stays_for_its_marks_stays(rig) -> None:
    """A reader who does not know of marks would fetch it. It holds nothing else back."""
    key = rig.upload(b"x")
    span = Span(bytes(16), 0, first=1, last=1)
    rig.queue().append(NewEntry(f"ingest/{key}", batch=Batch(13, 0), spans=[span]))
    rig.clock.step("1s")
    orphan = rig.upload(b"orphan")
    rig.queue().dequeue(0, epoch=rig.consumer().epoch)
    rig.clock.step("1h")
    assert rig.sequences() == []
    assert sweep(rig).keys == (orphan,)
    assert rig.batches() == [key]


def test_many_go_a_thousand_at_a_time_and_failures_are_left_to_the_next_round(rig) -> None:
    rig.consumer()
    keys = [rig.upload(b"x") for _ in range(2500)]
    rig.clock.step("1h")
    rig.bucket.acts.clear()
    kept = set(keys[:3])
    delete = rig.bucket.inner.delete

    def fail_some(asked):
        delete([key for key in asked if key not in kept])
        return [key for key in asked if key in kept]

    rig.bucket.inner.delete = fail_some
    metrics = Metrics(SHIP_CATALOGUE)
    swept = sweeper(rig, metrics=metrics).sweep()
    assert (swept.deleted_count, swept.failed_count, len(swept.keys)) == (2497, 3, 1000)
    asked = [key.count(",") + 1 for act, key in rig.bucket.acts if act == "delete"]
    assert asked == [1000, 1000, 500]
    rig.bucket.inner.delete = delete
    assert sweeper(rig, metrics=metrics).sweep().deleted_count == 3
    counted = metrics.read()
    assert counted["quiver.ship.swept_objects", ""] == 2500
    assert counted["quiver.ship.sweep_failures", ""] == 3
    assert sum(metrics.read_histograms()["quiver.ship.sweep"].counts) == 2


def test_pages_that_nobody_names_go_and_others_stay(rig) -> None:
    queue = rig.queue(options=QueueOptions(page_entries=8))
    for number in range(40):
        key = rig.upload(b"%d" % number)
        queue.append(NewEntry(f"ingest/{key}", batch=Batch(13, 0)))
    pages = {page.name for page in queue.read().pages}
    assert pages
    orphan = named(rig.now_ms(), ".page")
    rig.bucket.put(orphan, b"left over")
    rig.clock.step("1h")
    assert sweep(rig).keys == (orphan,)
    consumer = rig.consumer()
    consumer.next_descriptors(99)
    consumer.ack_through(39)
    rig.clock.step("1h")
    swept = sweep(rig)
    assert set(swept.keys) >= pages
    assert {each.key for each in rig.bucket.list("")} == {"manifest", "sweeper"}


def test_it_runs_while_a_consumer_is_open_and_ends_with_it(rig) -> None:
    consumer = rig.consumer(sweep_interval="5m", sweep_grace="10m")
    rig.upload(b"orphan")
    swept = threading.Event()
    rig.bucket.after = lambda act, key: swept.set() if act == "delete" else None
    rig.clock.step("10m")
    consumer.sweeper.look()
    assert swept.wait(WAIT)
    consumer.close()
    assert consumer.sweeper.ended.is_set()
    assert consumer.sweeper.failure is None
    assert rig.batches() == []


def test_a_round_that_fails_is_told_and_the_next_one_comes(rig) -> None:
    rig.consumer()
    rig.upload(b"orphan")
    rig.clock.step("1h")
    task = SweeperTask(sweeper(rig), interval_ns=60 * SECOND, clock=rig.clock)
    failed, swept = threading.Event(), threading.Event()

    def refuse(act: str, key: str) -> None:
        if act == "list":
            failed.set()
            raise RemoteError("down")

    rig.bucket.before = refuse
    rig.clock.step("1m")
    task.look()
    assert failed.wait(WAIT)
    rig.bucket.before = lambda act, key: None
    rig.bucket.after = lambda act, key: swept.set() if act == "delete" else None
    for _ in range(100):
        rig.clock.step("1m")
        task.look()
        if swept.wait(0.1):
            break
    task.stop()
    assert swept.is_set()
    assert task.failure is None


def test_the_rules_alone() -> None:
    now = 10 * DAY_MS
    old, young = named(now - DAY_MS), named(now - 1000)
    listed = [Listed(old, 5, now - DAY_MS), Listed(young, 5, now - 1000)]
    found = candidates(listed, times(now))
    assert set(found) == {old}
    assert [each.key for each in doomed(found.values(), set(), None)] == [old]
    assert doomed(found.values(), {old}, None) == []
    assert doomed(found.values(), set(), now - 2 * DAY_MS) == []
    stamped_wrong = [Listed(young, 5, now - DAY_MS)]  # As by a part of a store with a slow clock.
    assert candidates(stamped_wrong, times(now)) == {}
    assert oldest_of(found, [old, "elsewhere/" + named(77), "stranger"]) == 77
