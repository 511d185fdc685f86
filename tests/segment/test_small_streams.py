"""Small payloads of a segment that is written in a hurry: one stream, or what ``stream`` makes."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quiver.config import SegmentConfig
from quiver.disk import LocalDisk
from quiver.ipc import encode_stream
from quiver.segment import write_segment
from quiver.segment.small import unite_small
from quiver.segment.stream import Chunks
from quiver.testing.same import difference
from quiver.testing.strategies import batches, schemas
from tests.segment.conftest import Shelf

FEW = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
CONFIG = SegmentConfig()


def words(*values, kind=None):
    array = pa.array(values, kind).dictionary_encode()
    return pa.record_batch({"n": pa.array(range(len(values))), "word": array})


def chunks(*some):
    payloads = [memoryview(encode_stream(batch)) for batch in some]
    return Chunks(range(len(some)), some, payloads)


def united(*some, config=CONFIG):
    return unite_small(some[0].schema, chunks(*some), "", config=config)


def read_back(shelf, some):
    ready = [shelf.encode(n, {0: batch}) for n, batch in enumerate(some)]
    info = write_segment(shelf.disk, "", ready, label=shelf.label(), keep=True)
    with shelf.read(info) as reader:
        reader.verify()
        found = [difference(batch, reader.bundle(n)[0]) for n, batch in enumerate(some)]
        return found, len(reader.streams)


def test_words_of_all_chunks_are_one_dictionary(shelf):
    some = [words("a", "b"), words("b", "c", None), words("a", "a")]
    stream = united(*some)
    assert (list(stream.bundles), stream.rows, stream.null_counts) == ([0, 1, 2], [2, 3, 2], (0, 1))
    assert stream.bounds[1].stream == (b"a", b"c")
    with pa.ipc.open_file(stream.body.pieces[0].data) as file:
        assert file.get_batch(0).column("word").dictionary.to_pylist() == ["a", "b", "c"]
    assert read_back(shelf, some) == ([None] * 3, 1)


@pytest.mark.parametrize(
    "some",
    [
        pytest.param([words("a"), words(kind=pa.string())], id="no rows"),
        pytest.param([words(0.0), words(-0.0)], id="numbers that are equal and not the same"),
        pytest.param([words(np.nan), words(1.0)], id="no number"),
        pytest.param([pa.record_batch({"n": pa.nulls(2)}).select([])] * 2, id="no columns"),
    ],
)
def test_what_arrow_would_not_keep_as_it_is_comes_back_all_the_same(shelf, some):
    assert united(*some) is None
    assert read_back(shelf, some)[0] == [None] * len(some)


def test_more_words_than_an_index_tells_apart_make_several_streams(shelf):
    kind = pa.dictionary(pa.int8(), pa.string())
    some = [
        pa.record_batch({"w": pa.array([f"{n}.{m}" for m in range(50)]).cast(kind)})
        for n in range(6)
    ]
    assert united(*some) is None
    assert read_back(shelf, some) == ([None] * 6, 3)


def test_more_words_than_a_stream_may_have_are_left_alone():
    some = [words("a", "b"), words("c", "d")]
    assert united(*some, config=SegmentConfig(dictionary_cardinality=3)) is None
    assert united(*some, config=SegmentConfig(dictionary_cardinality=4)) is not None
    assert united(*some, config=SegmentConfig(compression="lz4")) is None


def test_a_dictionary_that_holds_a_null_comes_back(shelf):
    dictionary = pa.array(["x", None])
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), dictionary)
    other = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array(["y"]))
    some = [pa.record_batch({"w": each}) for each in (array, other)]
    assert read_back(shelf, some)[0] == [None, None]


@FEW
@given(st.data())
def test_any_small_batches_come_back_bit_by_bit(data):
    schema = data.draw(schemas(columns_max=3))
    some = [data.draw(batches(schema, rows_max=4)) for _ in range(data.draw(st.integers(1, 4)))]
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(LocalDisk(folder))
        assert read_back(shelf, some)[0] == [None] * len(some)
        shelf.disk.close()
