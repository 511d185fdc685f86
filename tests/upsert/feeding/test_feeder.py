"""Rows of a store become a collection: each once, in the order of their core."""

from __future__ import annotations

import pyarrow as pa
import pytest
from feeding_kit import NAME, Feeding, check, held, states, table

from quiver.errors import DamageError, FencedError, InputError, SourceError, SubscriberError
from quiver.testing import MemoryDisk
from quiver.upsert.feeding import Appended, FeedOptions, PassedBy
from quiver.upsert.persist import Collection, Source
from quiver.upsert.viewing import View


@pytest.fixture
def rig() -> Feeding:
    return Feeding()


def rows(tally) -> int:
    return tally.row_count


def total(rig: Feeding) -> int:
    return sum(len(rows) for some in rig.bundles.values() for rows in some)


def test_what_is_finished_is_in_after_a_run_and_acked(rig) -> None:
    rig.fill(3, 2, 4)
    tally = rig.feed()
    rig.check()
    assert (tally.epoch_count, tally.bundle_count, tally.row_count) == (1, 9, total(rig))
    assert rig.open_bundles() == 0
    (told,) = rig.told
    assert isinstance(told, Appended)
    assert (told.epoch, told.row_count, told.bundle_count) == (1, total(rig), 9)
    assert told.file_count == 2
    again = rig.feed()
    assert (again.epoch_count, again.bundle_count) == (0, 0)
    assert View(rig.bucket).latest == 1


def test_the_next_run_goes_on(rig) -> None:
    for count in (2, 1, 3):
        rig.fill(count)
        rig.feed()
        rig.check()
    assert View(rig.bucket).latest == 3


@pytest.mark.parametrize("limits", [{"rows": 1}, {"rows": 4}, {"size": 40}, {"size": 1}])
def test_epochs_are_bounded_and_bundles_whole(rig, limits) -> None:
    rig.fill(5, 4)
    tally = rig.feed(**limits)
    rig.check()
    assert tally.row_count == total(rig)
    sizes = [told.row_count for told in rig.told]
    most = limits.get("rows", limits.get("size", 0) // 16)
    assert all(told.row_count <= most or told.bundle_count == 1 for told in rig.told)
    assert len(sizes) == tally.epoch_count >= 4


def test_bundles_without_the_slot_are_passed(rig) -> None:
    with rig.open() as store:
        store.append({"other": pa.record_batch({"x": [1]})})
        store.append({"users": table([(1, 5)]), "other": pa.record_batch({"x": [1]})})
        store.append({"other": pa.record_batch({"x": [1]})})
        store.finalize()
    assert rig.feed().row_count == 1
    assert held(rig.bucket) == {1: 5}
    assert rig.open_bundles() == 0


def test_a_store_without_any_rows_makes_no_collection(rig) -> None:
    with rig.open() as store:
        store.append({"users": table([])})
        store.finalize()
    assert rig.feed().bundle_count == 1
    assert rig.open_bundles() == 0
    rig.fill(1)
    rig.feed()
    rig.check()


def test_all_cores_are_taken_each_in_its_order(rig) -> None:
    for core in (0, 1, 2):
        rig.fill(3, 2, core=core)
    rig.feed(rows=3)
    wanted: dict[int, int] = {}
    for some in rig.bundles.values():
        wanted |= states(some)[-1]
    assert held(rig.bucket) == wanted
    rig.fill(2, core=1)
    rig.feed()
    assert held(rig.bucket) == wanted | states(rig.bundles[1])[-1]


def test_a_subscriber_of_the_store_itself_may_feed(rig) -> None:
    rig.fill(3)
    with rig.open() as store:
        subscriber = store.subscribe(NAME, slots=["users"])
        tally = rig.feeder(subscriber).run()
        assert tally.row_count == total(rig)
        store.append({"users": table([(1, 77)])})
        store.finalize()
        assert rig.feeder(subscriber).run().row_count == 1
        assert store.lag(NAME).bundle_count == 0
    assert held(rig.bucket)[1] == 77


@pytest.mark.parametrize("rows_max", [1, 3, 1000])
def test_a_lost_subscriber_brings_nothing_in_twice(rig, rows_max) -> None:
    rig.fill(3, 3)
    with rig.open() as store:
        store.subscribe("keeper")
    rig.feed(rows=rows_max)
    before = View(rig.bucket).latest
    tally = rig.feed(name="another")
    assert (tally.row_count, tally.repeated_count) == (0, 6)
    assert rig.open_bundles("another") == 0
    assert View(rig.bucket).latest == before
    rig.fill(2)
    tally = rig.feed(name="third", rows=rows_max)
    assert (tally.bundle_count, tally.repeated_count) == (2, 6)
    rig.check()


def test_a_subscriber_that_is_set_back_brings_nothing_in_twice(rig) -> None:
    rig.fill(3, 3)
    with rig.open() as store:
        store.subscribe("keeper")
    rig.feed()
    with rig.open() as store:
        store.reset(NAME)
    rig.fill(1)
    tally = rig.feed()
    assert (tally.bundle_count, tally.repeated_count) == (1, 6)
    rig.check()


def test_lost_acks_bring_nothing_in_twice(rig) -> None:
    rig.fill(3, 3)
    with rig.open() as store:
        store.subscribe(NAME)
    before = MemoryDisk(rig.disk.tree)
    rig.feed(rows=2)
    rig.disk = before
    assert rig.open_bundles() == 6
    tally = rig.feed()
    assert (tally.row_count, tally.repeated_count) == (0, 6)
    rig.check()


def test_a_store_that_was_put_back_is_refused(rig) -> None:
    rig.fill(2)
    before = MemoryDisk(rig.disk.tree)
    rig.fill(2)
    rig.feed()
    rig.disk = before
    with pytest.raises(SourceError, match="went back"):
        rig.feed()


@pytest.mark.parametrize("name", [NAME, "another"])
def test_a_store_whose_segments_are_all_gone_is_no_such_store(rig, name) -> None:
    rig.fill(2, 2)
    rig.feed()
    with rig.open() as store:
        assert store.maintain() == 2
    assert rig.feed(name=name).bundle_count == 0
    rig.fill(1)
    assert rig.feed(name=name).bundle_count == 1
    rig.check()


@pytest.mark.parametrize("name", ["quiver:users", "quiver:users/before"])
def test_what_a_query_of_spark_had_taken_is_in_already(rig, name) -> None:
    rig.fill(2, 2)
    rig.feed()
    rig.fill(2)
    store_id = rig.subscribe("other").store_id
    writer = Collection.open(rig.bucket).writer()
    taken = Source("query", 7, {f"{store_id}/core_0": 2 * 2**32 + 1, "other/core_0": 5})
    writer.append([], 2, sources={name: taken})
    tally = rig.feed()
    assert (tally.bundle_count, tally.repeated_count) == (1, 1)
    splits = View(rig.bucket).snapshot.sources["quiver:users"].splits
    assert splits == {f"{store_id}/core_0": 2 * 2**32 + 2, "other/core_0": 5}


def test_a_run_within_which_the_offset_lies_is_taken_in_part(rig) -> None:
    rig.fill(6)
    feeder = rig.feeder(rig.subscribe(), rows=4)
    feeder._watch = lambda _: feeder.stop()
    tally = feeder.run()
    assert 0 < tally.bundle_count < 6
    assert rig.open_bundles() == 6  # A run has one outcome.
    again = rig.feed()
    assert again.bundle_count == 6 - tally.bundle_count
    assert again.repeated_count == tally.bundle_count
    rig.check()


def test_an_earlier_bundle_that_waits_holds_up_the_later_ones(rig) -> None:
    rig.fill(3, 2)
    with rig.subscribe() as subscriber:
        first = subscriber.poll()
        second = subscriber.poll()
        second.nack("60s")
        first.ack()
    tally = rig.feed(pass_acked=True)
    assert (tally.bundle_count, tally.is_held_up) == (0, True)
    rig.clock.step("61s")
    tally = rig.feed(pass_acked=True)
    assert (tally.bundle_count, tally.is_held_up) == (4, False)


def test_a_core_that_is_held_up_does_not_hold_up_others(rig) -> None:
    rig.fill(3, core=0)
    rig.fill(3, 1, core=1)
    with rig.subscribe() as subscriber:
        handle = subscriber.poll()
        assert handle.core == 0
        handle.nack("60s")
    tally = rig.feed()
    assert (tally.bundle_count, tally.is_held_up) == (4, True)
    assert held(rig.bucket) == states(rig.bundles[1])[-1]


def test_a_segment_that_cannot_be_opened_ends_it_before_the_next(rig) -> None:
    rig.fill(2, 2, 2)
    spoil_end(rig, 1)
    with pytest.raises(DamageError):
        rig.feed()
    assert rig.open_bundles() > 0
    if rig.told:
        check(rig.bucket, rig.bundles[0][:2])


def test_it_is_left_behind_if_that_is_asked_for(rig) -> None:
    rig.fill(2, 2, 2)
    spoil_end(rig, 1)
    tally = rig.feed(pass_damaged=True)
    assert (tally.passed_count, tally.bundle_count) == (1, 4)
    assert any(isinstance(told, PassedBy) for told in rig.told)
    kept = rig.bundles[0][:2] + rig.bundles[0][4:]
    assert held(rig.bucket) == states(kept)[-1]
    assert rig.feed().bundle_count == 0


def spoil_end(rig: Feeding, seq: int) -> None:
    from shipper_kit import damage, segment_path

    def change(data: bytearray) -> None:
        data[-20] ^= 1

    damage(rig.disk, segment_path(seq), change)


def test_who_comes_later_fences_the_earlier_one(rig) -> None:
    rig.fill(2)
    rig.feed()
    rig.fill(2)
    first = rig.feeder(rig.subscribe())
    gather = first._gather

    def late(**how):
        found = gather(**how)
        Collection.open(rig.bucket).writer()
        return found

    first._gather = late
    with pytest.raises(FencedError):
        first.run()
    assert View(rig.bucket).latest == 1
    assert rig.feed().bundle_count == 2
    rig.check()


def test_another_process_under_the_name_ends_it(rig) -> None:
    rig.fill(2)
    first = rig.subscribe()
    feeder = rig.feeder(first)
    with rig.subscribe():
        first.refresh_failed = None
        with pytest.raises(SubscriberError):
            first.refresh()
        with pytest.raises(SubscriberError):
            feeder.run()
    assert rig.feed().bundle_count == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [({"key": ["v"]}, "key"), ({"buckets": 3}, "buckets"), ({"key": ["k", "v"]}, "key")],
)
def test_what_a_collection_was_made_with_stays(rig, options, text) -> None:
    rig.fill(1)
    rig.feed()
    rig.fill(1)
    with pytest.raises(InputError, match=text):
        rig.feed(**options)
    assert rig.feed().bundle_count == 1


def test_rows_that_cannot_be_taken_end_it_and_lose_nothing(rig) -> None:
    rig.fill(2)
    with rig.open() as store:
        store.append({"users": pa.record_batch({"k": [50], "v": ["text"]})})
        store.finalize()
    rig.fill(1)
    with pytest.raises(InputError, match="'v'"):
        rig.feed(rows=1)
    check(rig.bucket, rig.bundles[0][:2])
    assert rig.open_bundles() == 2
    tally = rig.feed(misfit="error")
    assert (tally.bundle_count, tally.error_count) == (2, 1)
    with pytest.raises(InputError, match="a row is an error"):
        View(rig.bucket).to_table()


def test_columns_that_come_later_widen_the_collection(rig) -> None:
    rig.fill(1)
    rig.feed()
    with rig.open() as store:
        store.append({"users": pa.record_batch({"k": [50], "v": [1], "w": ["new"]})})
        store.append({"users": pa.record_batch({"k": [51], "w": ["more"]})})
        store.finalize()
    rig.feed()
    found = {row["k"]: (row["v"], row["w"]) for row in View(rig.bucket).to_table().to_pylist()}
    assert found[50] == (1, "new")
    assert found[51] == (None, "more")
    assert [w for _, w in found.values()].count(None) == len(found) - 2


def test_options_come_as_they_are_said() -> None:
    assert FeedOptions("s", "k").key == ("k",)
    assert FeedOptions("s", ["k"], size="1KiB", every="2s").limits == (1024, 2_000_000_000)
