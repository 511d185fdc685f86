"""A few bytes keep a whole slab: what is refused in between may not make that grow for ever."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import quiver
from quiver.config import Config
from quiver.engine.arena import SLAB_BYTES
from quiver.engine.encoding import Encoder
from quiver.errors import InputError, OutOfSequenceError
from quiver.ipc import decode_stream
from quiver.ipc_room import StreamRoom
from quiver.slots import SlotTable

MIB = 1 << 20
TARGET = 4 * MIB
ROUNDS = 60


def numbers(byte_count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.zeros(byte_count // 8, np.int64)})


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("how", ["entry", "time"])
def test_small_bundles_between_refused_ones_keep_no_more_than_a_few_segments(
    tmp_path: Path, how: str
) -> None:
    segment: dict[str, Any] = {"target_size": TARGET, "max_open_duration": "1h"}
    config: dict[str, Any] = {"segment": segment}
    if how == "entry":
        config["limits"] = {"entry_bytes": 3 * MIB}
    else:
        segment["time"] = "caller"
    times = {"time": 0} if how == "time" else {}
    error = InputError if how == "entry" else OutOfSequenceError
    small, most = {"a": numbers(8), "b": numbers(8)}, 0
    with quiver.open(tmp_path / "s", slots=["a", "b"], config=config, worker=False) as store:
        for _ in range(40):  # Slabs grow with what comes.
            store.append({"b": numbers(MIB)}, **times)
        for number in range(1, ROUNDS + 1):
            store.append(small, **({"time": number} if times else {}))
            with pytest.raises(error):
                store.append({"a": numbers(5 * MIB)}, **times)
            most = max(most, tracemalloc.get_traced_memory()[0])
    assert most < 3 * TARGET + 4 * SLAB_BYTES + 10 * MIB


def test_what_is_too_large_for_any_slab_leaves_the_one_that_was_begun() -> None:
    encoder = Encoder(SlotTable.of(["a"]), Config.of({}))
    kept = []
    for _ in range(9):
        kept += encoder.encode({"a": numbers(800)})
        kept += encoder.encode({"a": numbers(2 * SLAB_BYTES)})
    assert encoder.memory_bytes < SLAB_BYTES
    for payload in kept:
        assert decode_stream(payload.data).num_rows == payload.row_count


@pytest.mark.parametrize("byte_count", [400, 1000, 4096])
def test_the_rest_of_a_room_is_what_nobody_has(byte_count: int) -> None:
    room = StreamRoom(memoryview(bytearray(byte_count)))
    streams = []
    while (data := room.encode_stream(numbers(8 * (len(streams) + 1)))) is not None:
        streams.append(data)
    before = [data.to_pybytes() for data in streams]
    rest = room.rest()
    assert rest.byte_count == byte_count - sum(len(data) for data in streams)
    assert rest.encode_stream(numbers(8 * byte_count)) is None
    while rest.encode_stream(numbers(0)) is not None:
        pass
    assert [data.to_pybytes() for data in streams] == before
