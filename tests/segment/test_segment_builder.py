"""A segment that is built some bundles at a time is the one that is built at once."""

from __future__ import annotations

import decimal
import itertools
import tempfile
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quiver.config import SegmentConfig
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, InputError
from quiver.ipc_file import ArrowFile
from quiver.payload import EncodedBundle
from quiver.segment import SegmentBuilder, SegmentReader, body, write_segment
from quiver.testing.same import difference
from quiver.testing.strategies import batches as any_batches
from quiver.testing.strategies import schemas
from tests.segment.conftest import SLOTS, Shelf, encode_bundle

INDEXES = [pa.int8(), pa.uint8(), pa.int32(), pa.uint16()]
VALUES = [
    (pa.string(), ["a", "b", "c", "d", "ä", "", None]),
    (pa.int64(), [0, 1, -1, 2**62, None]),
    (pa.float64(), [0.0, -0.0, float("nan"), 1.5]),
    (pa.timestamp("ns", "UTC"), [1, 2, None]),
    (pa.binary(2), [b"ab", b"cd", None]),
    (pa.list_(pa.int8()), [[1], [], None]),
]


def numbered(draw: st.DrawFn, kind: pa.DataType, values: list[Any], index: Any) -> pa.Array:
    words = draw(st.lists(st.sampled_from(values), max_size=5))
    places = st.integers(0, len(words) - 1) if words else st.none()
    indices = draw(st.lists(st.none() | places, max_size=4))
    return pa.DictionaryArray.from_arrays(pa.array(indices, index), pa.array(words, kind))


@st.composite
def bundle_lists(draw: st.DrawFn) -> list[dict[int, pa.RecordBatch]]:
    """Bundles of one schema, with a dictionary, and of a slot without one; some with both."""
    kind, values = draw(st.sampled_from(VALUES))
    index = draw(st.sampled_from(INDEXES))
    found = []
    for number in range(draw(st.integers(1, 9))):
        array = numbered(draw, kind, values, index)
        times = pa.array([number * 7 % 5 or None] * len(array), pa.timestamp("us"))
        wide = [decimal.Decimal(number) ** 20, None][: len(array)]
        amounts = pa.array(wide + [None] * (len(array) - len(wide)), pa.decimal128(38, 0))
        bundle = {0: pa.record_batch({"at": times, "c": array, "d": amounts})}
        if draw(st.booleans()):
            bundle[5] = pa.record_batch({"n": pa.array(range(number % 3), pa.float32())})
        found.append(bundle)
    return found


def written(
    bundles: list[EncodedBundle], config: SegmentConfig, builder: SegmentBuilder | None = None
) -> tuple[bytes, list[dict[int, pa.RecordBatch]]]:
    with tempfile.TemporaryDirectory() as folder:
        disk = LocalDisk(folder)
        label = Shelf(disk).label()
        info = write_segment(
            disk, "", bundles, label=label, config=config, trusted=True, builder=builder
        )
        with SegmentReader.open(disk, info.path) as reader:
            reader.verify()
            found = [dict(reader.bundle(index)) for index in range(len(bundles))]
            return bytes(disk.map(info.path)), found


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=bundle_lists(),
    cuts=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
    cardinality=st.sampled_from([1, 2, 3, 100]),
    compression=st.sampled_from(["none", "zstd"]),
    large=st.sampled_from([0, 700, 5000, body.LARGE_BYTES]),
)
def test_how_bundles_came_together_does_not_show(drawn, cuts, cardinality, compression, large):
    with mock.patch.object(body, "LARGE_BYTES", large):
        check_that_it_does_not_show(drawn, cuts, cardinality, compression)


def check_that_it_does_not_show(drawn, cuts, cardinality, compression):
    bundles = [encode_bundle(number, bundle) for number, bundle in enumerate(drawn)]
    config = SegmentConfig(dictionary_cardinality=cardinality, compression=compression)
    whole, found = written(bundles, config)
    for expected, slots in zip(drawn, found, strict=True):
        assert list(slots) == list(expected)
        for slot_id, batch in expected.items():
            assert difference(batch, slots[slot_id]) is None
    builder = SegmentBuilder(config, trusted=True)
    for cut, is_summed_up in sorted(cuts):
        builder.add(bundles[len(builder.bundles) : cut], SLOTS)
        if is_summed_up:
            builder.sum_up()
    for _ in "12":  # A write that failed is tried again.
        assert written(bundles, config, builder)[0] == whole


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches=schemas().flatmap(lambda s: st.lists(any_batches(s), min_size=1, max_size=4)),
    cut=st.integers(0, 4),
)
def test_any_types_may_come_some_at_a_time(batches, cut):
    bundles = [encode_bundle(number, {0: batch}) for number, batch in enumerate(batches * 2)]
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    builder.add(bundles[:cut], SLOTS)
    whole, found = written(bundles, SegmentConfig(), builder)
    assert written(bundles, SegmentConfig())[0] == whole
    for batch, slots in zip(batches * 2, found, strict=True):
        assert difference(batch, slots[0]) is None


def many_words(start: int, end: int) -> EncodedBundle:
    words = pa.array([f"w{n}" for n in range(start, end)]).dictionary_encode()
    return encode_bundle(start, {0: pa.record_batch({"c": words, "n": range(end - start)})})


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_indices_that_were_written_grow_with_the_words(compression):
    edges = [0, 100, 128, 129, 300, 32_768, 32_769]
    bundles = [many_words(*pair) for pair in itertools.pairwise(edges)]
    config = SegmentConfig(compression=compression, dictionary_cardinality=1 << 20)
    builder = SegmentBuilder(config, trusted=True)
    for count, bits in zip(range(1, 7), [8, 8, 16, 16, 16, 32], strict=True):
        builder.add(bundles[count - 1 : count], SLOTS)
        ((_, _, schema, stream),) = builder.finish()
        file = ArrowFile(b"".join(piece.data for piece in stream.body.pieces))
        assert file.schema.field("c").type.index_type.bit_width == bits
        assert stream.bundles == list(range(count))
        table = file.table()
        assert table["c"].to_pylist() == [f"w{n}" for n in range(edges[count])]
        assert schema.field("c").type.index_type == pa.int32()
    assert written(bundles, config, builder)[0] == written(bundles, config)[0]


def test_a_builder_that_failed_is_not_used_again():
    good, other = many_words(0, 3), many_words(3, 6)
    (payload,) = other.payloads
    bad = other._replace(payloads=(payload._replace(data=payload.data[:-40]),))
    builder = SegmentBuilder(SegmentConfig(), trusted=False)
    builder.add([good], SLOTS)
    with pytest.raises(DamagedEntry):
        builder.add([other, bad], SLOTS)
    assert not builder.sound
    with pytest.raises(InputError, match="after it failed"):
        builder.add([other], SLOTS)
    assert written([good, other], SegmentConfig(), builder) == written(
        [good, other], SegmentConfig()
    )


def test_a_builder_of_other_bundles_is_not_used():
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    builder.add([many_words(0, 3), many_words(3, 6)], SLOTS)
    for bundles in ([many_words(0, 3), many_words(3, 6)], builder.bundles[1:]):
        assert written(bundles, SegmentConfig(), builder) == written(bundles, SegmentConfig())


def test_large_payloads_without_dictionaries_are_not_copied():
    bundle = encode_bundle(0, {0: pa.record_batch({"n": range(10_000)})})
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    builder.add([bundle], SLOTS)
    ((_, _, _, stream),) = builder.finish()
    longest = max((piece.data for piece in stream.body.pieces), key=len)
    assert isinstance(longest, memoryview)
    assert longest.obj is bundle.payloads[0].data


def test_messages_of_another_writer_are_taken_or_made_anew_one_by_one():
    batch = pa.record_batch({"n": range(9), "t": ["text"] * 9})
    bundles = [encode_bundle(number, {0: batch}) for number in range(4)]
    for place, options in (
        (1, pa.ipc.IpcWriteOptions(compression="zstd")),
        (2, pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)),
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        (payload,) = bundles[place].payloads
        changed = payload._replace(data=sink.getvalue().to_pybytes())
        bundles[place] = bundles[place]._replace(payloads=(changed,))
    whole, found = written(bundles, SegmentConfig())
    assert all(difference(batch, slots[0]) is None for slots in found)
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    for end in (2, 3):
        builder.add(bundles[len(builder.bundles) : end], SLOTS)
    assert written(bundles, SegmentConfig(), builder)[0] == whole


def test_streams_that_end_without_saying_so_are_read_all_the_same():
    batch = pa.record_batch({"n": range(9), "t": ["text"] * 9})
    bundles = []
    for number in range(3):
        bundle = encode_bundle(number, {0: batch})
        (payload,) = bundle.payloads
        bundles.append(bundle._replace(payloads=(payload._replace(data=payload.data[:-8]),)))
    _, found = written(bundles, SegmentConfig())
    assert all(difference(batch, slots[0]) is None for slots in found)


def test_more_text_than_one_array_holds_begins_another_stream(monkeypatch):
    def concat(arrays):
        if sum(map(len, arrays)) > 10 and len(arrays) > 1:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return pa.concat_arrays(arrays)

    monkeypatch.setattr("quiver.segment.words._concat", concat)
    sizes = [3, 4, 20, 5, 1, 1]
    bundles = [many_words(100 * place, 100 * place + n) for place, n in enumerate(sizes)]
    whole, found = written(bundles, SegmentConfig())
    assert [slots[0]["n"].to_pylist() for slots in found] == [list(range(n)) for n in sizes]
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    for end in range(1, 6):
        builder.add(bundles[end - 1 : end], SLOTS)
    assert [each.streams.bundles for each in builder.finish()] == [[0, 1], [2], [3, 4]]
    assert written(bundles, SegmentConfig(), builder)[0] == whole


def test_messages_of_a_large_stream_begin_where_a_page_does():
    bundles = [many_words(place, place + 60_000) for place in (0, 100, 200)]
    builder = SegmentBuilder(SegmentConfig(), trusted=True)
    for number, bundle in enumerate(bundles):
        builder.add([bundle], SLOTS)
        builder.sum_up()
        ((_, _, _, stream),) = builder.finish()
        assert stream.body.align == (4096 if number else 64)
        assert (stream.body.ahead is not None) == (number > 0)
    first = sum(len(piece.data) for piece in stream.body.pieces[: stream.body.ahead.first])
    assert first % 4096 == 0
    assert all(piece.sums for piece in stream.body.pieces[stream.body.ahead.first : -1])
    data = b"".join(piece.data for piece in stream.body.pieces)
    assert ArrowFile(data).table()["n"].to_pylist() == [*range(60_000)] * 3
    with pa.ipc.open_stream(data[8:]) as reader:  # The same file is a stream, behind its magic.
        assert reader.read_all()["n"].to_pylist() == [*range(60_000)] * 3
