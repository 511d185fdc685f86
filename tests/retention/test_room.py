"""Room is made with what is worth least, and never for nothing."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pyarrow as pa
import pytest
from store_kit import SLOTS, bundle, numbers, on_memory

import quiver
from quiver.engine.dropping import drop_open
from quiver.engine.sealed import seal, write_sealed
from quiver.testing import ManualClock, MemoryDisk

KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 30_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
}


def knobs(policy: str = "backpressure", **retention: Any) -> dict[str, Any]:
    return {**KNOBS, "retention": {"size_cap": 200_000, "size_cap_policy": policy, **retention}}


def waste(disk: MemoryDisk, path: str, size: int) -> None:
    file = disk.create(path)
    with contextlib.suppress(quiver.CapacityError):
        file.write(0, bytes(size))


def test_nothing_is_dropped_for_a_bundle_that_would_not_fit_into_an_empty_store() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    store.subscribe("reader")
    disk.make_dir("core_0/quarantine")
    waste(disk, "core_0/quarantine/x", 100_000)
    store.maintain()
    for number in range(40):
        store.append(bundle(number))
    lost = store.metrics().get(("quiver.subscriber.dropped_bundles", "reader"), 0)
    large = pa.record_batch({"n": pa.array(range(3600), pa.int64())})
    with pytest.raises(quiver.CapacityError, match="above its cap"):
        store.append({"events": large})
    store.finalize()
    assert numbers(store) == list(range(lost, 40))
    assert lost < 40


def test_what_was_acked_in_another_process_is_not_dropped(tmp_path) -> None:
    clock, taken, appended = ManualClock(), list[int](), 0
    store = quiver.open(
        tmp_path / "s", slots=SLOTS, config=knobs("drop_oldest"), worker=False, clock=clock
    )
    for _ in range(20):  # Many times what the cap has room for, and no tick in between.
        for _ in range(20):
            text = pa.record_batch({"n": [appended], "text": ["x" * 200]})
            store.append({"events": text})
            appended += 1
        store.finalize()
        with quiver.subscribe(tmp_path / "s", "reader", worker=False, clock=clock) as consumer:
            while (handle := consumer.poll()) is not None:
                with handle:
                    taken.append(handle["events"]["n"][0].as_py())
        if "reader" not in store._core.registry:
            store.maintain()
    assert taken == list(range(appended))
    store.maintain()
    assert store._core.registry.progress("reader").lag == 0
    assert {name for name, _ in store.metrics() if "dropped" in name} == set()
    store.close()


def test_the_headroom_is_given_up_on_a_full_disk() -> None:
    disk = MemoryDisk(capacity=400_000)
    store = on_memory(disk, **knobs(steady_state_headroom=150_000))
    store.subscribe("reader")
    for number in range(60):
        store.append(bundle(number))
    store.finalize()
    numbers(store)
    for number in range(60, 75):
        store.append(bundle(number))
    waste(disk, "other", 400_000)
    store.finalize()
    assert numbers(store) == list(range(60, 75))
    for _ in range(2):
        store.maintain()
    store.append(bundle(75))


def test_the_headroom_is_given_up_when_the_log_finds_no_room() -> None:
    disk = MemoryDisk(capacity=400_000)
    store = on_memory(disk, **knobs(steady_state_headroom=150_000))
    store.subscribe("reader")
    for number in range(60):
        store.append(bundle(number))
    store.finalize()
    numbers(store)
    waste(disk, "other", 400_000)
    large = pa.record_batch({"n": pa.array(range(1000), pa.int64())})
    with pytest.raises(quiver.CapacityError):
        store.append({"events": large})
    store.maintain()
    store.append({"events": large})


def test_acks_do_not_fill_a_store_for_ever() -> None:
    store = on_memory(MemoryDisk(), **knobs(), acks={"max_size": "4MB"})
    store.subscribe("reader")
    for first in range(0, 2000, 20):
        for number in range(first, first + 20):
            store.append(bundle(number))
        store.finalize()
        assert len(numbers(store)) == 20
        store.maintain()


def test_what_is_open_is_not_dropped_while_an_older_segment_is_written() -> None:
    store = on_memory(MemoryDisk(), **knobs("drop_oldest"))
    core = store._core
    for number in range(5):
        store.append(bundle(number))
    with core.lock:
        seal(core)
    store.append(bundle(5))

    class Writing:
        """Another thread that is done while it is waited for."""

        def wait(self, _: float) -> None:
            core.written = honest
            write_sealed(core)

    honest, core.written, core.writer = core.written, Writing(), -1
    with core.lock:
        drop_open(core)
    assert store.info().open_bundles == 1
    store.finalize()
    assert numbers(store) == list(range(6))


def test_the_worker_itself_may_wait_for_room(tmp_path) -> None:
    with quiver.open(tmp_path / "s", slots=SLOTS, config=knobs()) as store:
        taken: list[int] = []
        done = threading.Event()

        def answer(_: object) -> None:
            stop()
            try:
                with store._core.lock:  # As a full disk does it, which has room again.
                    store._core.reserve.lend_to_segment()
                taken.append(store.append(bundle(1), timeout="5s"))
            finally:
                done.set()

        stop = store.on_finalize(answer)
        store.append(bundle(0))
        store.finalize()
        assert done.wait(60)
        assert taken == [1]
