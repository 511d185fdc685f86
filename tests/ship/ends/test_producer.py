"""A producer: what makes a flush, what it writes, and what its handles say (scenarios 16 to 26)."""

from __future__ import annotations

import pytest
from ends_kit import WAIT, Rig

from quiver.errors import ClosedError, ConfigError, InputError
from quiver.ship.batch import decode_batch
from quiver.ship.objects import own_key
from quiver.ship.producer import Producer
from quiver.ship.producer.gathering import Call, Gathering, Load
from quiver.units import MILLISECOND


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def stored(rig: Rig, entry) -> list[bytes]:
    found = rig.bucket.get(own_key(rig.bucket, entry.location))
    return [bytes(record) for record in decode_batch(found.data)]


def test_16_two_calls_and_a_flush_are_one_batch_and_one_entry(rig) -> None:
    producer = rig.producer()
    first = producer.produce([b"a", b"b"], b"one")
    second = producer.produce([b"c"], b"two")
    assert not first.done
    assert first.sequence is None
    producer.flush(WAIT)
    (entry,) = rig.entries()
    assert first.done
    assert second.done
    assert first.wait_durable(0) == second.wait_durable(0)
    assert (first.sequence, first.durable.location) == (0, entry.location)
    assert stored(rig, entry) == [b"a", b"b", b"c"]
    assert [item.start_index for item in entry.items] == [0, 2]
    assert len(rig.batches()) == 1


def test_17_the_size_alone_makes_a_flush(rig) -> None:
    producer = rig.producer(flush_interval="1h", flush_size=10)
    handle = producer.produce([b"12345"], b"12345")
    assert handle.wait_durable(WAIT).sequence == 0


def test_18_the_interval_alone_makes_a_flush(rig) -> None:
    producer = rig.producer(flush_interval="100ms")
    handle = producer.produce([b"a"])
    assert not handle.done
    assert rig.bucket.count("put_if", "manifest") == 0
    rig.clock.step("99ms")
    rig.clock.step("1ms")
    assert handle.wait_durable(WAIT).sequence == 0
    assert rig.sequences() == [0]


def test_19_below_both_nothing_is_sent_until_a_flush(rig) -> None:
    producer = rig.producer(flush_interval="1h", flush_size="1MiB")
    handle = producer.produce([b"a"])
    rig.clock.step("59m")
    assert not handle.done
    assert rig.bucket.acts == []
    producer.flush(WAIT)
    assert handle.done


def test_20_a_flush_of_nothing_writes_nothing(rig) -> None:
    producer = rig.producer()
    producer.flush(WAIT)
    producer.close(WAIT)
    assert rig.bucket.acts == []


def test_21_two_flushes_are_two_entries_at_two_locations(rig) -> None:
    producer = rig.producer()
    for record in (b"a", b"b"):
        producer.produce([record])
        producer.flush(WAIT)
    entries = rig.entries()
    assert [entry.sequence for entry in entries] == [0, 1]
    assert len({entry.location for entry in entries}) == 2


def test_22_memory_for_one_call_takes_a_second_one_once_it_is_sent(rig) -> None:
    producer = rig.producer(flush_interval="1h", flush_size=400, memory=400)
    first = producer.produce([b"a"])
    second = producer.produce([b"b"])  # Waits, and makes the first one due.
    producer.flush(WAIT)
    assert (first.sequence, second.sequence) == (0, 1)


def test_23_metadata_and_time_reach_the_manifest_and_the_handle(rig) -> None:
    producer = rig.producer()
    handle = producer.produce([b"a"], b"payload")
    rig.clock.step("50ms")
    later = producer.produce([b"b"], b"")
    producer.flush(WAIT)
    (entry,) = rig.entries()
    assert [(i.start_index, i.ingestion_time_ms, i.payload) for i in entry.items] == [
        (0, handle.ingestion_time_ms, b"payload"),
        (1, later.ingestion_time_ms, b""),
    ]
    assert later.ingestion_time_ms - handle.ingestion_time_ms == 50


def test_24_closing_sends_the_rest(rig) -> None:
    with rig.producer(flush_interval="1h") as producer:
        handle = producer.produce([b"a"])
    assert handle.done
    assert rig.sequences() == [0]
    producer.close(WAIT)
    with pytest.raises(ClosedError):
        producer.produce([b"b"])


def test_25_an_empty_call_is_refused(rig) -> None:
    producer = rig.producer()
    with pytest.raises(InputError):
        producer.produce([])
    producer.close(WAIT)
    assert rig.bucket.acts == []


def test_26_empty_records_are_kept_with_their_ranges(rig) -> None:
    producer = rig.producer()
    producer.produce([b"", b""], b"empty")
    producer.produce([b"", b"x", b""], b"mixed")
    producer.flush(WAIT)
    batch = rig.consumer().next_batch()
    assert [bytes(record) for record in batch.records] == [b"", b"", b"", b"x", b""]
    assert [bytes(record) for record in batch.of_call(0)] == [b"", b""]
    assert [bytes(record) for record in batch.of_call(1)] == [b"", b"x", b""]


def test_zstd_is_smaller_and_reads_the_same(rig) -> None:
    producer = rig.producer(compression="zstd")
    handle = producer.produce([b"x" * 100_000])
    producer.flush(WAIT)
    (entry,) = rig.entries()
    assert entry.batch.byte_count < 10_000
    assert stored(rig, entry) == [b"x" * 100_000]
    counted = producer.metrics.read()
    assert counted["quiver.ship.flushed_bytes", ""] == 100_000
    assert counted["quiver.ship.written_bytes", ""] == entry.batch.byte_count
    assert handle.done


def test_records_of_any_bytes_are_taken_and_others_refused(rig) -> None:
    producer = rig.producer()
    producer.produce([bytearray(b"a"), memoryview(b"bc"), b"d"])
    producer.flush(WAIT)
    assert stored(rig, rig.entries()[0]) == [b"a", b"bc", b"d"]
    with pytest.raises(InputError):
        producer.produce([memoryview(b"abcd")[::2]])
    with pytest.raises(InputError):
        producer.produce(["text"])
    with pytest.raises(InputError):
        producer.produce([b"a"], b"m" * (1 << 20) + b"m")


@pytest.mark.parametrize(
    "options",
    [
        {"flush_size": 0},
        {"flush_size": 10, "memory": 9},
        {"compression": "gzip"},
        {"late_after": 0},
        {"late_after": "301s"},
    ],
)
def test_options_that_make_no_sense_are_refused(rig, options) -> None:
    with pytest.raises(ConfigError):
        Producer(rig.queue(), **options)


def test_what_a_producer_counts(rig) -> None:
    producer = rig.producer()
    producer.produce([b"abc", b"d"], b"mm")
    producer.flush(WAIT)
    counted = producer.metrics.read()
    assert counted["quiver.ship.flushed_batches", ""] == 1
    assert counted["quiver.ship.flushed_records", ""] == 2
    assert counted["quiver.ship.flushed_bytes", ""] == 6
    assert counted["quiver.ship.manifest_writes", "producer"] == 1
    assert counted["quiver.ship.manifest_conflicts", "producer"] == 0
    assert sum(producer.metrics.read_histograms()["quiver.ship.flush"].counts) == 1
    assert producer.conflict_rate == 0.0
    assert producer.waiting_bytes == 0


# when a batch is due ---------------------------------------------------------------------------


def call(size: int) -> Call:
    return Call((b"x" * size,), b"", 0, size)


def gathering(**options) -> Gathering:
    return Gathering(
        **{"flush_size": 100, "interval_ns": 10 * MILLISECOND, "block_max": 1 << 20, **options}
    )


def test_a_busy_producer_is_held_to_the_interval_too() -> None:
    """Traffic that never pauses does not put off what is due."""
    found = gathering(flush_size=1 << 30)
    for now_ms in range(10):
        found.add(call(1), now_ms * MILLISECOND)
        assert found.take(now_ms * MILLISECOND) is None
    found.add(call(1), 10 * MILLISECOND)
    assert len(found.take(10 * MILLISECOND).calls) == 11
    assert found.rest_ns(10 * MILLISECOND) is None


def test_the_interval_begins_with_the_first_call_of_each_batch() -> None:
    found = gathering()
    found.add(call(1), 0)
    assert found.rest_ns(4 * MILLISECOND) == 6 * MILLISECOND
    assert found.take(10 * MILLISECOND) is not None
    found.add(call(1), 12 * MILLISECOND)
    assert found.rest_ns(12 * MILLISECOND) == 10 * MILLISECOND


def test_a_batch_is_over_the_size_by_one_call_at_most() -> None:
    """Also if much comes while another one is on its way."""
    found = gathering()
    for _ in range(10):
        found.add(call(60), 0)
    sizes = []
    while (load := found.take(0)) is not None:
        sizes.append(load.size)
    assert sizes == [120] * 5


def test_a_batch_never_gets_larger_than_what_is_decoded() -> None:
    found = gathering(flush_size=1000, block_max=200)
    for _ in range(3):
        found.add(call(90), 0)
    found.close_open()
    blocks = []
    while (load := found.take(0)) is not None:
        blocks.append(load.block_size)
    assert blocks == [188, 94]


def test_a_batch_that_nobody_got_to_begin_is_none(monkeypatch) -> None:
    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    found = gathering()
    monkeypatch.setattr(Load, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.add(call(1), 0)
    found.close_open()
    assert (found.waiting(), found.rest_ns(1 << 60)) == ([], None)
    found.add(call(1), 0)
    assert len(found.take(1 << 60).calls) == 1
