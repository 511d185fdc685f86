"""What is prepared while a segment is open changes when work is done, and nothing else."""

from __future__ import annotations

import gc
import threading
from unittest import mock

import pyarrow as pa
import pytest

import quiver
from quiver.config import SegmentConfig
from quiver.engine import open as open_store
from quiver.engine.ahead import AHEAD_BYTES, Preparation
from quiver.engine.scribe import look_ahead
from quiver.errors import CapacityError, ClosedError
from quiver.manifest import StoreManifest
from quiver.segment import SegmentBuilder
from quiver.testing.manual_clock import ManualClock

CONFIG = {
    "segment": {"target_size": "1GB", "max_open_duration": "1h", "dictionaries": "unite"},
}


LARGE = 600
"""Rows of which a payload is kept as it came."""


def batch(number: int) -> pa.RecordBatch:
    words = pa.array([f"w{number}", "same", f"w{number}"]).dictionary_encode()
    return pa.record_batch({"n": [number, None, 3], "w": words})


def opened(folder, dictionaries="unite"):
    config = {"segment": {**CONFIG["segment"], "dictionaries": dictionaries}}
    with mock.patch.object(StoreManifest, "new", lambda slots: StoreManifest("0" * 32, slots)):
        return open_store(folder, slots=["a"], config=config, clock=ManualClock(), worker=False)


def segment_bytes(folder):
    (path,) = (folder / "core_0/segments").iterdir()
    return path.read_bytes()


def prepared(store):
    ahead = store._core.ahead
    return None if ahead is None else ahead.bundle_count


@pytest.mark.parametrize("how", ["unite", "keep"])
@pytest.mark.parametrize("looks", [(), (3,), (1, 2, 5), (6,)])
def test_the_segment_is_the_same_whenever_somebody_looked(tmp_path, looks, how):
    for folder, places in (("with", looks), ("without", ())):
        with opened(tmp_path / folder, how) as store:
            for number in range(1, 7):
                store.append({"a": pa.concat_batches([batch(number)] * LARGE)})
                if number in places:
                    look_ahead(store._core)
                    assert prepared(store) == number
                    assert store._core.ahead.keeps == (how == "keep")
            store.finalize()
            assert prepared(store) is None
    assert segment_bytes(tmp_path / "with") == segment_bytes(tmp_path / "without")


def rows(folder):
    return [value for value in quiver.scan(folder, slot="a").to_table()["n"].to_pylist() if value]


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowInvalid, CapacityError])
def test_a_look_that_fails_leaves_all_work_to_the_end(tmp_path, monkeypatch, error):
    add = SegmentBuilder.add
    with opened(tmp_path) as store:
        store.append({"a": batch(1)})
        look_ahead(store._core)

        def failing(self, bundles, slots):
            add(self, bundles, slots)
            self.sound = False
            raise error("in the middle")

        monkeypatch.setattr(SegmentBuilder, "add", failing)
        store.append({"a": batch(2)})
        look_ahead(store._core)
        monkeypatch.undo()
        assert prepared(store) is None
        look_ahead(store._core)
        store.append({"a": batch(4)})
        store.finalize()
    assert rows(tmp_path) == [1, 3, 2, 3, 4, 3]


def test_a_segment_that_could_not_be_written_is_written_from_what_is_prepared(tmp_path):
    with opened(tmp_path) as store:
        store.append({"a": batch(1)})
        look_ahead(store._core)
        store.append({"a": batch(2)})
        disk = type(store._core.disk)
        with (
            mock.patch.object(disk, "rename", side_effect=CapacityError("no room")),
            pytest.raises(CapacityError),
        ):
            store.finalize()
        store.append({"a": batch(4)})
        look_ahead(store._core)
        store.finalize()
    assert rows(tmp_path) == [1, 3, 2, 3, 4, 3]
    assert len(list((tmp_path / "core_0/segments").iterdir())) == 2


def test_nothing_is_added_to_what_was_handed_over():
    ahead = Preparation(SegmentConfig())
    builder = ahead.hand_over()
    ahead.add([], 0, mock.sentinel.slots)
    assert ahead.bundle_count is None
    assert ahead.hand_over() is builder
    assert builder.bundles == []


def test_recovered_bundles_are_left_alone(tmp_path):
    with opened(tmp_path) as store:
        store.append({"a": batch(1)})
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("quiver.json", "core_0/wal/quiver.wal"):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((tmp_path / name).read_bytes())
    with opened(copy) as store:
        store.append({"a": batch(2)})
        look_ahead(store._core)
        assert store._core.ahead is None
        store.finalize()
    assert rows(copy) == [1, 3, 2, 3]


class Told:
    def __init__(self) -> None:
        self.event = threading.Event()

    def run(self) -> None:
        self.event.set()

    def refuse(self, error: ClosedError) -> None:
        raise error


def test_the_scribe_looks_when_enough_came(tmp_path):
    large = pa.record_batch({"n": pa.array(range(AHEAD_BYTES // 16), pa.int64())})
    with quiver.open(tmp_path, slots=["a"], config=CONFIG) as store:
        store.append({"a": large})
        assert store._core.ahead is None
        for count in (2, 4):
            while store._core.open_segment.bundle_count < count:
                store.append({"a": large})
            told = Told()
            store._scribe._preparer.post(told)
            assert told.event.wait(60)
            assert prepared(store) >= 2
        assert store._scribe._opened() is store._core.open_segment
        store.finalize()
        gc.collect()
        assert store._scribe._opened() is None, "what is a file by now is still in memory"
    assert quiver.scan(tmp_path, slot="a").count_rows() == 4 * large.num_rows


def test_the_scribe_leaves_it_while_somebody_writes_a_segment_and_makes_up_for_it(tmp_path):
    large = pa.record_batch({"n": pa.array(range(AHEAD_BYTES // 8), pa.int64())})
    with quiver.open(tmp_path, slots=["a"], config=CONFIG) as store:
        with store._core.lock:
            store._core.writer = -1
        for _ in "123":
            store.append({"a": large})
        assert store._scribe._preparer is None
        with store._core.lock:
            store._core.writer = None
        store.append({"a": large})
        told = Told()
        store._scribe._preparer.post(told)
        assert told.event.wait(60)
        assert prepared(store) == 4


def test_what_is_kept_is_prepared_while_the_segment_before_it_is_written(tmp_path):
    with opened(tmp_path, "keep") as store:
        store.append({"a": batch(1)})
        store._core.writer = -1
        look_ahead(store._core)
        assert prepared(store) == 1
        store._core.writer = None


def test_nothing_is_kept_ahead_where_streams_are_compressed(tmp_path):
    config = {"segment": {"dictionaries": "keep", "compression": "lz4"}}
    with open_store(tmp_path, slots=["a"], config=config, worker=False) as store:
        store.append({"a": batch(1)})
        look_ahead(store._core)
        assert store._core.ahead is None
        store.finalize()
    assert rows(tmp_path) == [1, 3]
