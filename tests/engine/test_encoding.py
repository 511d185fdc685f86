"""Payloads in memory that is used again: the same bytes, and never under a view of somebody."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quiver import ipc_room
from quiver.config import Config
from quiver.engine.arena import SLAB_BYTES, Arena
from quiver.engine.encoding import Encoder
from quiver.errors import CapacityError, InputError
from quiver.ipc import decode_stream, encode_stream
from quiver.ipc_room import StreamRoom
from quiver.payload import Payload
from quiver.slots import SlotTable

SLOTS = SlotTable.of(["a", "b", "c"])


def encoder(config: dict | None = None) -> Encoder:
    return Encoder(SLOTS, Config.of(config or {}))


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})


def words(seed: int) -> pa.RecordBatch:
    column = pa.array([f"w{n % (seed + 1)}" for n in range(seed + 3)]).dictionary_encode()
    return pa.record_batch({"w": column, "t": pa.array([None, "é"] * 99)[: seed + 3]})


def test_a_payload_is_the_stream_that_it_always_was() -> None:
    ours = encoder()
    for seed in range(40):
        batches = {"a": numbers(seed), "b": words(seed), "c": words(3 * seed).slice(2)}
        payloads = ours.encode(batches)
        for payload, batch in zip(payloads, batches.values(), strict=True):
            assert bytes(payload.data) == encode_stream(batch).to_pybytes()


def test_without_the_short_way_into_arrow_the_bytes_are_the_same(monkeypatch) -> None:
    assert ipc_room._Writer is not ipc_room._Opened, (
        "pyarrow has another way now: is ours still shorter?"
    )
    batches = {"a": numbers(9), "b": words(5), "c": words(0)}
    short = [bytes(payload.data) for payload in encoder().encode(batches)]
    with monkeypatch.context() as another:
        another.setattr(pa, "RecordBatchStreamWriter", type("Another", (), {}))
        found = ipc_room._shortest()
    assert found is ipc_room._Opened
    monkeypatch.setattr(ipc_room, "_Writer", found)
    assert [bytes(payload.data) for payload in encoder().encode(batches)] == short


def test_nothing_of_the_callers_is_kept() -> None:
    ours = encoder()
    indices = np.zeros(100, np.int8)
    is_kept = weakref.ref(indices)
    column = pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int8(), 100, [None, pa.py_buffer(indices)]), pa.array(["one"])
    )
    payloads = ours.encode({"a": pa.record_batch({"w": column})})
    del indices, column
    gc.collect()
    assert is_kept() is None
    assert len(payloads) == 1


def test_no_view_of_bytes_is_walked_through_by_the_collector() -> None:
    payloads = encoder({"limits": {"rows": 1 << 20}}).encode(
        {"a": numbers(3), "b": words(2), "c": numbers(300_000)}
    )
    assert not any(gc.is_tracked(payload.data) for payload in payloads)


def test_bytes_stay_while_somebody_has_them() -> None:
    ours = encoder({"segment": {"target_size": SLAB_BYTES}})
    kept: dict[int, tuple[Payload, ...]] = {}
    for number in range(300):
        payloads = ours.encode({"a": numbers(10_000, number)})
        if number % 17 == 0:
            kept[number] = payloads
    for number, (payload,) in kept.items():
        assert decode_stream(payload.data).equals(numbers(10_000, number))


def test_memory_is_used_again_once_nobody_has_it() -> None:
    arena = Arena(2 * SLAB_BYTES)
    small = numbers(50_000)
    places = set()
    views = []
    for _ in range(200):
        slab = arena.begun()
        while (data := slab.encode_stream(small)) is None:
            slab = arena.new()
        arena.give_back(slab)
        views = [*views[-8:], data]
        places.add(pa.py_buffer(data).address)
    assert len(places) < 60
    assert all(decode_stream(view).equals(small) for view in views)


@pytest.mark.parametrize(("rows", "most"), [(1_250, 1 << 20), (75_000, 16 << 20)])
def test_who_lets_each_go_stays_in_the_first_slabs(monkeypatch, rows: int, most: int) -> None:
    """10 KB at a time, and 600 KB, which the first slabs have no room for."""
    taken: list[int] = []
    apart: list[object] = []
    empty = np.empty

    def counted(count: int, kind: type) -> Any:
        taken.append(count)
        return empty(count, kind)

    def alone(batch: pa.RecordBatch) -> Any:
        apart.append(batch)
        return encode_stream(batch)

    monkeypatch.setattr("quiver.engine.arena.np.empty", counted)
    monkeypatch.setattr("quiver.engine.encoding.encode_stream", alone)
    ours = encoder({"segment": {"target_size": 4 * SLAB_BYTES}})
    batch = numbers(rows)
    for number in range(1000):
        (payload,) = ours.encode({"a": batch})
        assert number % 100 or decode_stream(payload.data).equals(batch)
    assert sum(taken) < most
    assert len(apart) < 5


def test_a_batch_that_arrow_made_of_a_view_keeps_it() -> None:
    ours = encoder({"segment": {"target_size": SLAB_BYTES}})
    (payload,) = ours.encode({"a": numbers(20_000, 7)})
    batch = decode_stream(payload.data)
    del payload
    gc.collect()
    for number in range(200):
        ours.encode({"a": numbers(20_000, number)})
    assert batch.equals(numbers(20_000, 7))


@pytest.mark.parametrize("count", [30_000, 200_000, 700_000])
def test_any_size_goes_with_any_other(count: int) -> None:
    ours = encoder()
    for turn in range(4):
        batches = {"a": numbers(count, turn), "b": numbers(5, turn), "c": numbers(count // 3)}
        payloads = ours.encode(batches)
        for payload, batch in zip(payloads, batches.values(), strict=True):
            assert decode_stream(payload.data).equals(batch)


def test_threads_do_not_write_into_each_others_slabs() -> None:
    ours = encoder()
    found: list[tuple[int, bytes | memoryview]] = []

    def work(first: int) -> None:
        for number in range(first, first + 60):
            (payload,) = ours.encode({"a": numbers(5_000, number)})
            found.append((number, payload.data))

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 240
    for number, data in found:
        assert decode_stream(data).equals(numbers(5_000, number))


def test_what_arrow_refuses_to_write_leaves_the_encoder_good() -> None:
    ours = encoder({"limits": {"entry_bytes": 100_000}})
    good = {"a": numbers(10), "b": words(3)}
    first = [bytes(payload.data) for payload in ours.encode(good)]
    with pytest.raises(InputError, match="the limit is"):
        ours.encode({"a": numbers(100_000)})
    assert [bytes(payload.data) for payload in ours.encode(good)] == first


def test_no_memory_is_told_as_such_and_the_next_append_goes_on(monkeypatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError

    ours = encoder()
    with monkeypatch.context() as patched:
        patched.setattr("quiver.engine.arena.np.empty", none)
        with pytest.raises(CapacityError, match="not enough memory"):
            ours.encode({"a": numbers(3)})
    (payload,) = ours.encode({"a": numbers(3)})
    assert decode_stream(payload.data).equals(numbers(3))


def test_memory_that_cannot_be_written_is_refused_and_does_not_end_the_process() -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        StreamRoom(memoryview(bytes(100)))
