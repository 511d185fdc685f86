"""Each event comes when LOGS.md says, with its fields; and one for a segment, none for a bundle."""

from __future__ import annotations

import logging
import threading
from collections import Counter

import pyarrow as pa
import pytest
from beside_kit import Beside
from store_kit import SLOTS, bundle, on_memory

import quiver
from quiver.errors import QuiverError
from quiver.testing import ManualClock, MemoryDisk

WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}
SMALL = {"target_size": 1}
PATIENCE = 60


def test_ten_thousand_bundles_make_lines_for_segments_and_files_alone(heard, tmp_path) -> None:
    wal = {"durability": "interval", "rotate_size": "1MB", "max_chunks": 10}
    config = {"segment": {"target_size": "300kB", "max_open_duration": "1h"}, "wal": wal}
    table = pa.record_batch({"n": [1]})
    with quiver.open(tmp_path, slots=["a"], config=config) as store:
        reader = store.subscribe("reader")
        for _ in range(10_000):
            store.append({"a": table})
        store.finalize()
        while (handle := reader.poll()) is not None:
            if handle.wal_seq % 7 == 0 and handle.attempt == 1:
                handle.nack(retry_after=0)
            else:
                handle.ack()
        segments = store.metrics()["quiver.segment.finalized_segments", ""]
        appended = store.metrics()["quiver.wal.appended_bytes", ""]
        rotations = store._core.log.end.generation - 1
    assert 3 < segments < 40
    found = Counter(heard.names)
    once = dict.fromkeys(("store.opened", "store.closed", "subscriber.registered"), 1)
    assert dict(found) == {
        **once,
        "segment.finalized": segments,
        "wal.rotated": rotations,
        "subscriber.nacked": segments,
    }
    assert rotations <= appended // 10**6
    assert sum(fields["bundle_count"] for fields in heard.of("segment.finalized")) == 10_000


def test_a_life_without_faults_is_told_in_order(heard) -> None:
    disk = MemoryDisk()
    with on_memory(disk, segment=WAITING) as store:
        first = store.subscribe("first", start="latest")
        store.append(bundle(0))
        store.append(bundle(1))
        info = store.finalize()
        with first.poll():
            pass
        store.pause("first")
        store.resume("first")
        store.rename("first", "second")
        store.reset("second", start=0)
        store.unsubscribe("second")
    about = {"store": store.path, "core": 0}
    assert all(about.items() <= fields.items() for _, _, fields in heard.records)
    assert {level for level, _, _ in heard.records} == {"info"}
    opened = dict.fromkeys(
        ("segment_count", "subscriber_count", "replayed_bundle_count", "skipped_bundle_count"), 0
    )
    assert [(name, heard.of(name)[0]) for name in heard.names] == [
        ("store.opened", {"durability": "sync", **opened, "damage_count": 0}),
        ("subscriber.registered", {"subscriber": "first", "segment_seq_first": 0}),
        (
            "segment.finalized",
            {"segment_seq": 0, "bundle_count": 2, "file_bytes": info.file_bytes},
        ),
        ("subscriber.paused", {"subscriber": "first"}),
        ("subscriber.resumed", {"subscriber": "first"}),
        ("subscriber.renamed", {"subscriber": "first", "new_name": "second"}),
        ("subscriber.reset", {"subscriber": "second", "segment_seq_first": 0}),
        ("subscriber.unregistered", {"subscriber": "second"}),
        ("store.closed", {}),
    ]


def test_a_rotation_is_told_after_the_append_that_needed_it(heard) -> None:
    store = on_memory(MemoryDisk(), segment=WAITING, wal={"rotate_size": 2000})
    while not heard.of("wal.rotated"):
        store.append(bundle(0))
    (fields,) = heard.of("wal.rotated")
    assert fields["generation"] == 1
    assert 1000 < fields["file_bytes"] <= 2000
    assert fields["file_count"] == 2


def test_nacks_and_dead_letters_are_told_once_for_each_segment_and_never_why(heard) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, subscriber={"max_attempts": 2})
    reader = store.subscribe("reader")
    for n in range(6):
        store.append(bundle(n))
        if n % 3 == 2:
            store.finalize()
    for _ in range(2):
        for handle in [reader.poll() for _ in range(6)]:
            handle.nack(retry_after=0, reason="customer 4711 is unknown")
    common = {"subscriber": "reader", "bundle_index": 0}
    assert heard.of("subscriber.nacked") == [
        {**common, "segment_seq": number, "attempt": 1} for number in (0, 1)
    ]
    assert heard.of("subscriber.dead_letter") == [
        {**common, "segment_seq": number, "attempt": 2} for number in (0, 1)
    ]
    assert "4711" not in str(heard.records)
    assert store.metrics()["quiver.subscriber.dead_letters", "reader"] == 6


def test_an_orphan_that_goes_is_told(heard) -> None:
    disk, clock = MemoryDisk(), ManualClock()
    config = {"subscriber": {"orphan_timeout": "1h"}}
    store = quiver.open("m", slots=SLOTS, disk=disk, clock=clock, worker=False, config=config)
    store.subscribe("gone").close()
    store._core.subscriptions.clear()
    store.append(bundle(0))
    store.finalize()
    for _ in range(2):
        store.maintain()
        clock.step("2h")
    store.maintain()
    assert heard.of("subscriber.orphan_removed") == [{"subscriber": "gone"}]
    assert heard.names[-2:] == ["subscriber.unregistered", "subscriber.orphan_removed"]


def test_subscribers_in_other_processes_are_told_of(heard) -> None:
    beside = Beside()
    store = beside.open()
    beside.fill(store, 2)
    with beside.subscribe("far") as far:
        far.poll().ack()
    store.maintain()
    assert heard.of("subscriber.registered") == [{"subscriber": "far", "segment_seq_first": 0}]
    assert [fields["subscriber"] for fields in heard.of("subscriber.taken_over")] == ["far"]
    beside.put("far", b"rubbish")
    for _ in range(3):
        store.maintain()
    (fields,) = heard.of("subscriber.inbox_refused")
    assert (fields["subscriber"], fields["error"]) == ("far", str(store.refused_inboxes["far"]))
    store.subscribe("far")
    (fields,) = heard.of("subscriber.inbox_set_aside")
    assert fields["subscriber"] == "far"


def test_nothing_of_a_bundle_is_ever_logged(heard, tmp_path) -> None:
    secret = "very-secret-4711"
    batch = {"a": pa.record_batch({"column-4711": [secret] * 3})}
    config = {"segment": {"target_size": 1}, "subscriber": {"max_attempts": 1}}
    with quiver.open(tmp_path, slots=["a"], config=config, worker=False) as store:
        reader = store.subscribe("reader")
        for _ in range(3):
            store.append(batch)
        with pytest.raises(ZeroDivisionError), reader.poll() as handle:
            raise ZeroDivisionError(handle["a"].column(0)[0].as_py())
        reader.poll().reject(secret)
        with pytest.raises(QuiverError):
            store.append({"a": pa.record_batch({secret: [1], "x": [pa.scalar(1)]}), secret: 3})
    assert len(heard.records) > 5
    assert "4711" not in str(heard.records)


def test_a_handler_may_append_to_the_store_that_it_hears_of() -> None:
    """Also while another thread that appends holds the handler's lock."""
    logger = logging.getLogger("quiver")
    config = {"segment": SMALL, "wal": {"rotate_size": 500}}
    disk = MemoryDisk()
    store = quiver.open("m", slots=["a"], disk=disk, config=config)
    appended: list[int] = []
    heard: list[str] = []

    class Into(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if len(heard) < 100 and not store.closed:
                heard.append(record.getMessage())
                appended.append(store.append({"a": pa.record_batch({"n": [record.getMessage()]})}))

    handler, level = Into(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def run() -> None:
        for _ in range(50):
            appended.append(store.append({"a": pa.record_batch({"n": ["x"]})}))
            with handler.lock:  # As who logs something else to the same handler has it.
                appended.append(store.append({"a": pa.record_batch({"n": ["y"]})}))

    try:
        threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)
        store.close()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert len(heard) == 100
    assert len(appended) == len(set(appended)) == 300 + len(heard)
    with quiver.open("m", disk=disk, worker=False) as store:
        assert sum(info.bundle_count for info in store._core.catalog) == len(appended)


def test_nobody_hears_anything_without_a_handler(tmp_path, capfd) -> None:
    with quiver.open(tmp_path, slots=["a"], worker=False) as store:
        store.append({"a": pa.record_batch({"n": [1]})})
    assert capfd.readouterr() == ("", "")
