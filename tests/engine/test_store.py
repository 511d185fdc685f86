"""Append, finalize, subscribe, close: the life of a store on a real disk."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from store_kit import abandon, bundle, numbers

import quiver
from quiver.segment import SegmentReader
from quiver.testing import ManualClock


def segments(path: Path) -> list[str]:
    return sorted(p.name for p in (path / "core_0/segments").iterdir())


def test_a_store_lies_on_disk_as_designed(opener, path: Path) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    store.subscribe("reader")
    found = {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}
    assert found == {
        "quiver.json",
        "quiver.json.lock",
        "core_0/LOCK",
        "core_0/wal/quiver.wal",
        "core_0/wal/truncate.offset",
        "core_0/segments/0000000000000000.qseg",
        "core_0/acks/ack.log",
    }
    modes = {p.name: p.stat().st_mode & 0o777 for p in path.rglob("*")}
    assert modes.pop("0000000000000000.qseg") == 0o440
    assert {mode for name, mode in modes.items() if "." in name or name == "LOCK"} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o700
    assert modes["core_0"] == modes["wal"] == modes["segments"] == 0o700


def test_bundles_come_back_equal_and_in_order(opener) -> None:
    store = opener()
    assert [store.append(bundle(n)) for n in range(10)] == list(range(10))
    assert store.finalize().bundle_count == 10
    assert numbers(store) == list(range(10))


@pytest.mark.parametrize(
    "value",
    [
        pa.record_batch({"n": [1, 2]}),
        pa.table({"n": [1, 2]}),
        pa.chunked_array([[1], [2]]),
        pl.DataFrame({"n": [1, 2]}),
        pl.DataFrame({"n": [1, 2]}).to_pandas(),
        pa.table({"n": [1, 2]}).slice(0, 0),
    ],
    ids=["batch", "table", "not a table", "polars", "pandas", "no rows"],
)
def test_anything_that_speaks_arrow_is_taken(opener, value: object) -> None:
    store = opener()
    if isinstance(value, pa.ChunkedArray):
        with pytest.raises(quiver.InputError, match="events"):
            store.append({"events": value})
        return
    store.append({"events": value})
    store.finalize()
    with store.subscribe("reader").poll() as handle:
        assert handle["events"].column(0).to_pylist() in ([1, 2], [])
        assert handle["events"].schema.names == ["n"]


def test_a_change_of_the_callers_memory_does_not_reach_the_store(opener) -> None:
    np = pytest.importorskip("numpy")
    mine = np.arange(4)
    store = opener()
    store.append({"events": pa.record_batch({"n": pa.array(mine)})})
    mine[:] = -1
    store.finalize()
    with store.subscribe("reader").poll() as handle:
        assert handle["events"].column("n").to_pylist() == [0, 1, 2, 3]


def test_absent_slots_stay_absent(opener) -> None:
    store = opener()
    store.append({"events": pa.table({"n": [1]}), "notes": None})
    store.finalize()
    with store.subscribe("reader").poll() as handle:
        assert list(handle) == ["events"]


def test_size_age_and_streams_each_finalize(opener, clock: ManualClock, path: Path) -> None:
    store = opener({"segment": {"target_size": 2000, "max_open_duration": "5s"}})
    while not segments(path):
        store.append(bundle(1))
    assert store.info().open_bundles == 0
    store.append(bundle(1))
    store.maintain()
    assert len(segments(path)) == 1
    clock.step("6s")
    store.maintain()
    assert len(segments(path)) == 2
    store.close()
    store = opener({"segment": {"max_streams": 3}})
    for n in range(3):
        store.append({"events": pa.table({f"c{n}": [n]})})
    assert len(segments(path)) == 3


def test_close_finalizes_and_an_empty_close_is_harmless(opener, path: Path) -> None:
    with opener() as store:
        store.append(bundle(0))
    assert segments(path) == ["0000000000000000.qseg"]
    with opener():
        pass
    assert segments(path) == ["0000000000000000.qseg"]


def test_finalize_of_nothing_gives_nothing(opener) -> None:
    assert opener().finalize() is None


def test_segments_are_there_after_a_restart_and_a_subscriber_takes_them(opener) -> None:
    with opener() as store:
        for n in range(3):
            store.append(bundle(n))
    with opener() as store:
        assert numbers(store) == [0, 1, 2]


def test_numbers_go_on_after_a_restart(opener) -> None:
    with opener() as store:
        assert store.append(bundle(0)) == 0
    with opener() as store:
        assert store.append(bundle(1)) == 1
        assert store.finalize().segment_seq == 1


def test_numbers_go_on_when_everything_was_consumed_and_deleted(opener, path: Path) -> None:
    with opener() as store:
        store.append(bundle(0))
        store.finalize()
        assert numbers(store) == [0]
        assert store.maintain() == 1
    assert segments(path) == []
    with opener() as store:
        assert store.append(bundle(1)) == 1
        assert store.finalize().segment_seq == 1
        assert numbers(store) == [1]


def test_many_bundles_over_many_segments_all_come_back(opener, path: Path) -> None:
    store = opener({"segment": {"target_size": 20_000}, "wal": {"rotate_size": 30_000}})
    for n in range(400):
        store.append(bundle(n))
    store.finalize()
    assert len(segments(path)) > 5
    assert numbers(store) == list(range(400))


def test_a_log_smaller_than_a_segment_finalizes_early(opener, path: Path) -> None:
    store = opener({"limits": {"entry_bytes": 2000}, "wal": {"max_size": 3000}})
    for n in range(20):
        store.append(bundle(n))
    assert len(segments(path)) > 2
    store.finalize()
    assert numbers(store) == list(range(20))


def test_the_file_cap_of_the_log_finalizes_early(opener, path: Path) -> None:
    store = opener({"wal": {"rotate_size": 1, "max_chunks": 3}})
    for n in range(20):
        store.append(bundle(n))
        assert len(list((path / "core_0/wal").glob("quiver.wal*"))) <= 3
    store.finalize()
    assert numbers(store) == list(range(20))


def test_concurrent_appends_are_all_there_and_share_syncs(opener) -> None:
    store = opener(clock=None)

    def append(start: int) -> None:
        for n in range(start, start + 25):
            store.append(bundle(n))

    threads = [threading.Thread(target=append, args=(100 * t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store._core.log.sync_count <= 200
    store.finalize()
    found = numbers(store)
    assert sorted(found) == sorted(n for t in range(8) for n in range(100 * t, 100 * t + 25))
    for t in range(8):
        mine = [n for n in found if n // 100 == t]
        assert mine == sorted(mine)


def test_a_receipt_waits_for_durability_and_many_share_one_sync(opener) -> None:
    store = opener()
    receipts = [store.append(bundle(n), wait=False) for n in range(10)]
    assert [receipt.wait() for receipt in receipts] == list(range(10))
    assert store._core.log.sync_count == 1


@pytest.mark.parametrize(("durability", "syncs"), [("sync", 5), ("interval", 0), ("segment", 0)])
def test_durability_says_when_an_append_syncs(opener, durability: str, syncs: int) -> None:
    store = opener({"wal": {"durability": durability}})
    for n in range(5):
        store.append(bundle(n))
    assert store._core.log.sync_count == syncs
    abandon(store)
    again = opener()
    assert again.recovery.replayed_bundles == (0 if durability == "segment" else 5)


def test_interval_appends_are_synced_by_the_next_tick_and_by_flush(opener) -> None:
    store = opener({"wal": {"durability": "interval"}})
    store.append(bundle(0))
    store.maintain()
    assert store._core.log.sync_count == 1
    store.append(bundle(1))
    store.flush()
    assert store._core.log.sync_count == 2


def test_switching_durability_on_one_folder_loses_nothing(opener) -> None:
    modes = ["sync", "segment", "interval", "segment", "sync"]
    for n, mode in enumerate(modes):
        with opener({"wal": {"durability": mode}}) as store:
            store.append(bundle(n))
    with opener() as store:
        assert numbers(store) == [0, 1, 2, 3, 4]


def test_segment_mode_writes_no_entries(opener, path: Path) -> None:
    store = opener({"wal": {"durability": "segment"}})
    store.append(bundle(0))
    assert (path / "core_0/wal/quiver.wal").stat().st_size == 30
    store.flush()
    assert segments(path)


def test_the_worker_finalizes_by_age_on_its_own(opener, path: Path) -> None:
    store = opener({"segment": {"max_open_duration": "1ms"}}, clock=None, worker=True)
    subscription = store.subscribe("reader")
    store.append(bundle(3))
    handle = subscription.next("60s")
    assert handle["events"].column("n")[0].as_py() == 3
    handle.ack()
    store.close()


def test_a_store_refuses_use_after_close_pickling_and_a_forked_child(opener) -> None:
    store = opener()
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(store)
    child = os.fork()
    if child == 0:
        try:
            store.append(bundle(0))
        except quiver.ClosedError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.append(bundle(0))
    store.close()
    store.close()
    for act in (lambda: store.append(bundle(1)), store.finalize, store.maintain, store.flush):
        with pytest.raises(quiver.ClosedError):
            act()


def test_segments_tell_where_they_come_from(opener, path: Path) -> None:
    store = opener()
    for n in range(3):
        store.append(bundle(n))
    info = store.finalize()
    assert (info.wal_seq_first, info.wal_seq_last) == (0, 2)
    with SegmentReader.open(store._core.disk, info.path) as reader:
        assert reader.slots == store.slots
        assert reader.store_id == store.info().store_id
        assert [reader.bundle_entry(i).wal_seq for i in range(3)] == [0, 1, 2]


def test_metrics_count_what_happened(opener) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    numbers(store)
    store.maintain()
    read = store.metrics()
    assert read["quiver.wal.appended_bundles", ""] == 1
    assert read["quiver.segment.finalized_segments", ""] == 1
    assert read["quiver.retention.evicted_segments", "steady"] == 1
