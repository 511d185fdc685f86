"""Finished segments go into the queue, each once, and are acked when they are there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from beside_kit import peek
from shipper_kit import NAME, arrived, entries, shipped
from store_kit import bundle

from quiver.errors import InputError, MissingError, SubscriberError
from quiver.manifest import StoreManifest
from quiver.segment import open_bytes, segment_name
from quiver.ship.batch import decode_batch
from quiver.ship.objects import own_key
from quiver.ship.shipper import Shipment, Shipper, Trouble, loading, shipper
from quiver.ship.shipper.cargo import Packer

SECONDS = 60


def left(rig, name: str = NAME) -> list[int]:
    with rig.subscribe(name) as reader:
        return peek(reader)


def test_segments_arrive_as_they_lie_on_the_disk_and_are_acked(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 3, 1, 2)
        files = [bytes(rig.disk.map(f"core_0/segments/{segment_name(seq)}")) for seq in range(3)]
        tally = rig.ship()
        (entry,) = entries(rig.bucket)
        data = bytes(rig.bucket.get(own_key(rig.bucket, entry.location)).data)
        assert all(file in data for file in files)
        assert entry.batch.byte_count == len(data)
        assert arrived(rig.bucket) == list(range(6))
        assert (tally.batch_count, tally.segment_count, tally.bundle_count) == (1, 3, 6)
        assert tally.record_bytes == sum(map(len, files))
        assert left(rig) == []
        store.maintain()
        assert store.info().segments == 0


@pytest.mark.parametrize("rooms", [(loading,), (shipper,), (loading, shipper)])
def test_what_is_under_way_arrives_when_a_process_ends_that_gives_no_more_threads(
    rig, monkeypatch, rooms
) -> None:
    class Ending(ThreadPoolExecutor):
        def submit(self, *_, **__):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    for room in rooms:
        monkeypatch.setattr(room, "ThreadPoolExecutor", Ending)
    with rig.open() as store:
        rig.fill(store, 3, 1, 2)
        assert rig.ship(batch_bytes=1).segment_count == 3
        rig.fill(store, 1, 1)
        assert rig.ship().segment_count == 2
        assert arrived(rig.bucket) == list(range(8))


def test_payloads_name_store_core_and_numbers(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 1)
        rig.ship()
        store_id = StoreManifest.read(rig.disk).store_id
    found = [segment for segment, _ in shipped(rig.bucket)]
    assert [(s.store_id, s.core, s.segment_seq, s.bundle_count) for s in found] == [
        (store_id, 0, 0, 2),
        (store_id, 0, 1, 1),
    ]
    assert found[0].slots == 0b11
    assert found[1].wal_seq_first == found[0].wal_seq_last + 1
    assert rig.queue().read().marks == {(bytes.fromhex(store_id), 0): 1}


def test_what_is_only_in_the_log_waits_for_its_segment(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1)
        store.append(bundle(1))
        rig.ship()
        assert arrived(rig.bucket) == [0]
        store.finalize()
        rig.ship()
        assert arrived(rig.bucket) == [0, 1]


def test_a_second_run_ships_nothing_twice_and_goes_on(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 2)
        assert rig.ship().bundle_count == 2
        tally = rig.ship()
        assert (tally.bundle_count, tally.bundles_before, tally.append_count) == (0, 0, 0)
        rig.fill(store, 1)
        assert rig.ship().bundle_count == 1
        assert arrived(rig.bucket) == [0, 1, 2]


def test_what_the_queue_has_is_only_acked(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 1)
        rig.ship()
        rig.fill(store, 2)
        tally = rig.ship("another")
        assert (tally.bundle_count, tally.bundles_before) == (2, 3)
        assert arrived(rig.bucket) == list(range(5))
        assert left(rig, "another") == []


def test_batches_are_as_large_as_is_said_and_in_order(rig) -> None:
    with rig.open() as store:
        rig.fill(store, *[1] * 7)
        size = rig.disk.stat(f"core_0/segments/{segment_name(0)}").size
        tally = rig.ship(batch_bytes=2 * size + size // 2)
        assert tally.batch_count == 4
        assert len(entries(rig.bucket)) == 4
        assert arrived(rig.bucket) == list(range(7))
        assert [told.segment_count for told in rig.told] == [2, 2, 2, 1]
        assert [told.sequence for told in rig.told] == [0, 1, 2, 3]
        assert all(isinstance(told, Shipment) for told in rig.told)


@pytest.mark.parametrize("options", [{"uploads": 1}, {"memory_bytes": 1}], ids=str)
def test_little_memory_and_one_thread_are_enough(rig, options) -> None:
    with rig.open() as store:
        rig.fill(store, *[2] * 5)
        rig.ship(batch_bytes=1, **options)
        assert arrived(rig.bucket) == list(range(10))
        assert len(entries(rig.bucket)) == 5


def test_segments_of_a_batch_are_read_two_at_a_time_and_summed_while_they_are_put(
    rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, summed = threading.Barrier(2), threading.Event()
    pack, sum_parts, write = Packer.pack, loading.sum_parts, rig.bucket.write

    def meet(self, pending):
        both.wait(SECONDS)
        return pack(self, pending)

    def say(parts):
        summed.set()
        return sum_parts(parts)

    def wait(key, data):
        assert summed.wait(SECONDS)
        write(key, data)

    monkeypatch.setattr(Packer, "pack", meet)
    monkeypatch.setattr(loading, "sum_parts", say)
    monkeypatch.setattr(rig.bucket, "write", wait)
    with rig.open() as store:
        rig.fill(store, 1, 2, 3, 1)
        assert rig.ship().batch_count == 1
    assert arrived(rig.bucket) == list(range(7))


def test_zstd_makes_objects_smaller(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 20)
        tally = rig.ship(compression="zstd")
        assert tally.batch_bytes < tally.record_bytes // 2
        assert arrived(rig.bucket) == list(range(20))


def test_what_is_too_large_to_be_decompressed_by_anybody_is_not_compressed(
    rig, monkeypatch
) -> None:
    monkeypatch.setattr(loading, "BLOCK_BYTES_MAX", 5000)
    with rig.open() as store:
        rig.fill(store, 3)
    rig.ship(compression="zstd")
    (entry,) = entries(rig.bucket)
    data = rig.bucket.get(own_key(rig.bucket, entry.location)).data
    assert sum(map(len, decode_batch(data, block_bytes_max=5000))) > 5000
    assert arrived(rig.bucket) == [0, 1, 2]


def test_only_what_is_open_of_a_segment_is_shipped(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 6, 2)
        with rig.subscribe(NAME) as reader:
            handles = [reader.poll() for _ in range(6)]
            for index, handle in enumerate(handles):
                if index in (0, 3):
                    handle.ack()
                else:
                    handle.defer()
        tally = rig.ship()
        assert arrived(rig.bucket) == [1, 2, 4, 5, 6, 7]
        assert (tally.segment_count, tally.bundle_count) == (2, 6)
        assert left(rig) == []


def test_who_joins_late_ships_from_there(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 2, 1, 1)
        rig.ship(start=1)
        assert arrived(rig.bucket) == [2, 3]


def test_slots_that_are_not_asked_for_stay_and_bundles_without_any_are_acked(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 4, 1)
        store.append({"events": bundle(1)["events"]})
        store.finalize()
        tally = rig.ship(slots=("notes",))
        found = [(segment, reader) for segment, reader in shipped(rig.bucket)]
        assert [segment.slots for segment, _ in found] == [0b10, 0b10]
        notes = [
            reader.bundle(index)[1].column("s")[0].as_py()
            for _, reader in found
            for index in range(reader.bundle_count)
        ]
        assert notes == ["note 0", "note 2", "note 4"]
        assert all(set(reader.bundle(0)) == {1} for _, reader in found)
        assert found[0][1].slots == StoreManifest.read(rig.disk).slots
        assert (tally.bundle_count, tally.bundles_unwanted) == (3, 3)
        assert left(rig) == []


def test_bundles_keep_their_numbers_and_times_when_a_segment_is_written_anew(rig) -> None:
    with rig.open() as store:
        for number in range(4):
            rig.clock.step("1s")
            store.append(bundle(number))
        store.finalize()
        whole = rig.disk.map(f"core_0/segments/{segment_name(0)}")
        rig.ship(slots=("notes",))
    before = open_bytes(whole, place="file")
    ((_, reader),) = shipped(rig.bucket)
    kept = [before.bundle_entry(index) for index in (0, 2)]
    now = [reader.bundle_entry(index) for index in (0, 1)]
    assert [(e.wal_seq, e.ingestion_ns) for e in now] == [(e.wal_seq, e.ingestion_ns) for e in kept]


def test_cores_take_turns_and_each_has_its_mark(rig) -> None:
    with rig.open() as first, rig.open() as second:
        rig.fill(first, 1, 1)
        rig.fill(second, 1, 1)
        rig.ship(batch_bytes=1)
        found = [(segment.core, segment.segment_seq) for segment, _ in shipped(rig.bucket)]
        assert found == [(0, 0), (1, 0), (0, 1), (1, 1)]
        assert sorted(arrived(rig.bucket)) == list(range(4))
        assert sorted(rig.queue().read().marks.values()) == [1, 1]


def test_many_stores_share_one_queue(rig) -> None:
    other = type(rig)()
    other.appended = 100
    with rig.open() as here, other.open() as there:
        rig.fill(here, 2)
        other.fill(there, 2)
        rig.ship()
        other.shipper(queue=rig.queue()).run()
        rig.fill(here, 1)
        rig.ship()
    assert arrived(rig.bucket) == [0, 1, 100, 101, 2]
    assert len(rig.queue().read().marks) == 2


def test_a_paused_subscriber_ships_nothing(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1)
        store.subscribe(NAME).close()
        store.pause(NAME)
        assert rig.ship().is_paused
        assert entries(rig.bucket) == []
        store.resume(NAME)
        store.maintain()
        rig.ship()
        assert arrived(rig.bucket) == [0]


def test_an_older_shipper_of_the_same_name_stops_and_nothing_is_there_twice(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1)
        shipper = rig.shipper(batch_bytes=1)
        queue = shipper._queue
        append = queue.append

        def overtaken(*entries):
            rig.ship()  # The other one takes the name, and ships the same.
            return append(*entries)

        queue.append = overtaken
        with pytest.raises(SubscriberError, match="another process"):
            shipper.run()
        assert arrived(rig.bucket) == [0]


def test_two_names_at_once_ship_each_segment_once(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1, 1, 1)
        shipper = rig.shipper("slow", batch_bytes=1 << 20)
        queue = shipper._queue
        append = queue.append

        def overtaken(*drafts):
            if not entries(rig.bucket):  # Just before, another one ships the first of them.
                rig.ship("fast", batch_bytes=1)
                rig.fill(store, 1)
            return append(*drafts)

        queue.append = overtaken
        shipper.run()
        rig.ship("slow")
        assert arrived(rig.bucket) == [0, 1, 2, 3]
        assert left(rig, "slow") == []


def test_another_one_comes_in_between_with_a_part_of_a_batch(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1, 1, 1)
        slow = rig.shipper("slow", batch_bytes=1 << 20)
        append = slow._queue.append

        def overtaken(*drafts):
            if not entries(rig.bucket):
                fast = rig.shipper("fast", batch_bytes=1, uploads=1)
                fast._watch = lambda told: isinstance(told, Shipment) and fast.stop()
                assert fast.run().bundle_count in (1, 2)
            return append(*drafts)

        slow._queue.append = overtaken
        tally = slow.run()
        assert arrived(rig.bucket) == [0, 1, 2]
        assert any(isinstance(told, Trouble) for told in rig.told)
        assert tally.bundle_count + tally.bundles_before == 3
        assert tally.rejected_bundles == 0


def test_what_can_not_be_is_refused(rig) -> None:
    with pytest.raises(MissingError):
        rig.shipper()
    with rig.open():
        with pytest.raises(InputError, match="no slot"):
            rig.shipper(slots=("nothing",))
        for options in (
            {"slots": ()},
            {"damaged": "forget"},
            {"compression": "lz4"},
            {"uploads": 0},
            {"batch_bytes": 0},
            {"memory_bytes": -1},
        ):
            with pytest.raises(InputError):
                rig.shipper(**options)
        with pytest.raises(SubscriberError):
            rig.ship("no name")


def test_a_shipper_that_was_stopped_finishes_what_is_under_way(rig) -> None:
    with rig.open() as store:
        rig.fill(store, *[1] * 6)
        shipper: Shipper = rig.shipper(batch_bytes=1, uploads=2)
        shipper._watch = lambda told: isinstance(told, Shipment) and shipper.stop()
        tally = shipper.run()
        count = tally.bundle_count
        assert 1 <= count < 6
        assert tally.is_cut_short
        assert arrived(rig.bucket) == list(range(count))
        assert left(rig) == list(range(count, 6))


def test_it_counts_what_a_producer_counts(rig) -> None:
    with rig.open() as store:
        rig.fill(store, 1, 1, 1)
        shipper = rig.shipper(batch_bytes=1)
        tally = shipper.run()
    counted = shipper.metrics.read()
    assert counted["quiver.ship.flushed_batches", ""] == 3
    assert counted["quiver.ship.flushed_records", ""] == 3
    assert counted["quiver.ship.flushed_bytes", ""] == tally.record_bytes
    assert counted["quiver.ship.written_bytes", ""] == tally.batch_bytes
    assert counted["quiver.ship.manifest_writes", "producer"] == tally.append_count
    assert sum(shipper.metrics.read_histograms()["quiver.ship.flush"].counts) == 3
    assert shipper.gauges() == {"quiver.ship.waiting_bytes": 0}
