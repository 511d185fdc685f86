"""Payloads that are kept as they came: a stream of its own for each, and the same bundles."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from datetime import UTC, datetime
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quiver.config import LimitsConfig, SegmentConfig
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, DamageError, InputError
from quiver.ipc import encode_stream
from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentReader, keeper, write_relabelled, write_segment
from quiver.segment.kept import PAGED_BYTES_MIN
from quiver.testing.same import difference
from quiver.testing.strategies import batches, schemas
from tests.segment.conftest import Shelf

ANY_SIZE = mock.patch.object(keeper, "KEPT_BYTES_MIN", 0)
FEW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def words(number: int, count: int = 500) -> pa.RecordBatch:
    """A batch with dictionaries of its own and times of event."""
    at = [datetime(2020, 1, number + 1, tzinfo=UTC)] * count
    return pa.record_batch(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "word": pa.array([f"{number}.{n % 50}" for n in range(count)]).dictionary_encode(),
            "level": pa.array([["low", None, "high"][n % 3] for n in range(count)])
            .dictionary_encode()
            .cast(pa.dictionary(pa.uint8(), pa.string())),
            "nested": pa.array([[n], None][n % 2] for n in range(count)),
        }
    )


def written(shelf, bundles, *, keep=True, **options):
    ready = [shelf.encode(100 + n, bundle) for n, bundle in enumerate(bundles)]
    return write_segment(shelf.disk, "", ready, label=shelf.label(), keep=keep, **options)


def content(shelf, name):
    with contextlib.closing(shelf.disk.open(name)) as file:
        return file.read(0, file.size())


def test_each_large_payload_has_a_stream_and_small_ones_share_one(shelf, numbers):
    bundles = [{0: words(n), 5: numbers(n)} for n in range(4)]
    with shelf.read(written(shelf, bundles)) as reader:
        reader.verify()
        assert [(s.slot_id, s.chunk_count) for s in reader.streams] == [(0, 1)] * 4 + [(5, 4)]
        for index, bundle in enumerate(bundles):
            found = reader.bundle(index)
            assert [found[slot].equals(bundle[slot]) for slot in (0, 5)] == [True, True]
            assert reader.bundle_entry(index).event_ns_min == (1577836800 + 86400 * index) * 10**9
        assert [s.null_counts for s in reader.streams] == [(None,) * 4] * 4 + [(0,)]


def test_the_payload_lies_in_the_file_as_it_came(shelf):
    bundle = shelf.encode(1, {0: words(1)})
    info = write_segment(shelf.disk, "", [bundle], label=shelf.label(), keep=True)
    assert shelf.load(info)[8:].startswith(bytes(bundle.payloads[0].data))


def test_any_reader_of_arrow_opens_a_kept_stream(shelf):
    bundles = [{0: words(n)} for n in range(3)]
    info = written(shelf, bundles)
    data = shelf.load(info)
    for stream, bundle in zip(shelf.read(info).streams, bundles, strict=True):
        part = data[stream.byte_offset :][: stream.byte_length]
        with pa.ipc.open_file(part) as file:
            assert file.num_record_batches == 1
            assert file.get_batch(0).equals(bundle[0], check_metadata=True)


def test_a_few_columns_of_a_kept_stream_are_checked_with_all_of_it(shelf):
    info = written(shelf, [{0: words(0)}])
    with shelf.read(info) as reader:
        assert reader.chunk(0, 0, columns=[1]).equals(words(0).select([1]))
        assert reader.index.page_checksums(0) == b""


def test_of_a_long_kept_stream_only_the_pages_that_are_needed_are_checked(shelf):
    long = pa.record_batch({"a": pa.array(range(40_000)), "b": pa.array(range(40_000))})
    info = written(shelf, [{0: long}, {0: long}])
    data = bytearray(shelf.load(info))
    first = shelf.read(info).streams[0]
    assert first.byte_length > PAGED_BYTES_MIN
    data[first.byte_offset + first.byte_length * 3 // 4] ^= 1
    with SegmentReader(shelf.disk, info.path, memoryview(data)) as reader:
        assert reader.chunk(0, 0, columns=[0]).equals(long.select([0]))
        with pytest.raises(DamageError):
            reader.chunk(0, 0, columns=[1])


def test_any_flipped_byte_of_a_kept_stream_is_found(shelf):
    info = written(shelf, [{0: words(0, 200)}, {0: words(1, 200)}])
    data = bytearray(shelf.load(info))
    first, second = shelf.read(info).streams
    for place in range(first.byte_offset, first.byte_offset + first.byte_length, 7):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with SegmentReader(shelf.disk, info.path, memoryview(damaged)) as reader:
            with pytest.raises(DamageError):
                reader.chunk(0, 0)
            assert reader.chunk(second.stream_id, 0).equals(words(1, 200))


def test_numbered_anew_it_is_what_would_have_been_written_so(shelf, numbers):
    info = written(shelf, [{0: words(n), 5: numbers(n)} for n in range(2)])
    again = write_relabelled(
        shelf.disk,
        info.path,
        "other",
        label=shelf.label(9),
        wal_seq_first=7,
        ingestion_ns=1,
        limits=LimitsConfig().for_reading(),
    )
    ready = [shelf.encode(7 + n, {0: words(n), 5: numbers(n)}) for n in range(2)]
    ready = [bundle._replace(ingestion_ns=1) for bundle in ready]
    at_once = write_segment(shelf.disk, "", ready, label=shelf.label(9), keep=True)
    assert shelf.load(again) == shelf.load(at_once)


@pytest.mark.parametrize("parts", [(1, 1, 3), (4, 1), (5,)], ids=str)
@pytest.mark.parametrize("prepares", [True, False], ids=["prepared", "not prepared"])
def test_the_file_is_the_same_however_bundles_came(shelf, numbers, parts, prepares):
    long = pa.record_batch({"a": pa.array(range(40_000))})
    bundles = [{0: words(n), 5: numbers(n), 63: long} for n in range(6)]
    bundles.append({0: words(6).drop_columns("nested")})
    ready = [shelf.encode(100 + n, bundle) for n, bundle in enumerate(bundles)]
    begun, came = keeper.Keeper(SegmentConfig(), trusted=True), iter(ready)
    for count in parts:
        begun.add(list(itertools.islice(came, count)), shelf.label().slots)
        if prepares:
            begun.sum_up()
    for name in ("begun", "again"):
        write_segment(
            shelf.disk, "", ready, label=shelf.label(), name=name, keep=True, builder=begun
        )
    write_segment(shelf.disk, "", ready, label=shelf.label(), name="at once", keep=True)
    found = [content(shelf, name) for name in ("begun", "again", "at once")]
    assert found[0] == found[1] == found[2]


def test_what_was_begun_for_other_bundles_or_failed_is_not_used(shelf):
    ready = [shelf.encode(n, {0: words(n)}) for n in range(3)]
    others = keeper.Keeper(SegmentConfig(), trusted=True)
    others.add(ready[1:], shelf.label().slots)
    failed = keeper.Keeper(SegmentConfig(), trusted=False)
    lie = EncodedBundle(0, 1, tuple(p._replace(row_count=3) for p in ready[0].payloads))
    with pytest.raises(DamagedEntry):
        failed.add([lie], shelf.label().slots)
    with pytest.raises(InputError):
        failed.add(ready, shelf.label().slots)
    for begun in (others, failed):
        info = write_segment(shelf.disk, "", ready, label=shelf.label(), keep=True, builder=begun)
        with shelf.read(info) as reader:
            reader.verify()
            assert [reader.bundle(n)[0].equals(words(n)) for n in range(3)] == [True] * 3


def test_compressed_segments_are_written_anew(shelf):
    info = written(
        shelf, [{0: words(n)} for n in range(2)], config=SegmentConfig(compression="lz4")
    )
    assert [s.chunk_count for s in shelf.read(info).streams] == [2]


def streams_of_others(batch):
    """Streams that are one batch to a reader, and not a schema, dictionaries, a batch, an end."""
    whole = encode_stream(batch).to_pybytes()
    yield "no end", whole[:-8]
    for name, options in (
        ("compressed", pa.ipc.IpcWriteOptions(compression="lz4")),
        ("version 4", pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)),
        ("legacy", pa.ipc.IpcWriteOptions(use_legacy_format=True)),
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        yield name, sink.getvalue().to_pybytes()


@pytest.mark.parametrize(("name", "data"), list(streams_of_others(words(3))))
def test_a_stream_of_another_writer_is_written_anew(shelf, name, data):
    bundle = shelf.encode(1, {0: words(3)})
    payload = bundle.payloads[0]._replace(data=data)
    both = [bundle._replace(payloads=(payload,)), shelf.encode(2, {0: words(4)})]
    info = write_segment(shelf.disk, "", both, label=shelf.label(), keep=True)
    with shelf.read(info) as reader:
        reader.verify()
        found = [difference(reader.bundle(n)[0], words(3 + n)) for n in range(2)]
        assert found == [None, None], name


def test_a_stream_of_another_shape_is_not_taken_for_one_of_the_same(shelf):
    around = FileAround.of(memoryview(encode_stream(words(1)).to_pybytes()))
    other = encode_stream(words(2)).to_pybytes()
    assert around.tail(memoryview(other)) is not None
    for place in range(len(other)):
        assert around.tail(memoryview(other[:place])) is None
    assert around.tail(memoryview(other + bytes(8))) is None
    for place in range(len(other)):  # A length may be any number.
        huge = other[:place] + b"\xff" * 8 + other[place + 8 :]
        FileAround.of(memoryview(huge))
        around.tail(memoryview(huge))
    assert around.tail(memoryview(encode_stream(words(2).slice(0, 0)).to_pybytes())) is None


@FEW
@given(st.data())
def test_any_batches_come_back_bit_by_bit(data):
    schema = data.draw(schemas(columns_max=3))
    count = data.draw(st.integers(1, 3))
    given_batches = [data.draw(batches(schema, rows_max=4)) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder, ANY_SIZE:
        shelf = Shelf(LocalDisk(folder))
        info = written(shelf, [{0: batch} for batch in given_batches])
        with shelf.read(info) as reader:
            reader.verify()
            for index, batch in enumerate(given_batches):
                assert difference(batch, reader.bundle(index)[0]) is None
        shelf.disk.close()


@FEW
@given(st.binary(max_size=64), st.integers(0, 2000), st.integers(0, 64))
def test_no_bytes_in_place_of_a_stream_do_any_harm(noise, start, length):
    whole = bytearray(encode_stream(words(1, 20)).to_pybytes())
    around = FileAround.of(memoryview(bytes(whole)))
    whole[start : start + length] = noise
    data = memoryview(bytes(whole))
    for found in (around, FileAround.of(data)):
        tail = None if found is None else found.tail(data)
        if tail is not None:
            assert (FILE_HEAD + bytes(data) + tail).endswith(b"ARROW1")


def test_payloads_that_do_not_say_what_they_are_are_refused(shelf):
    bundle = shelf.encode(1, {0: words(1)})
    lie = EncodedBundle(1, 1, tuple(p._replace(row_count=3) for p in bundle.payloads))
    with pytest.raises(DamageError):
        write_segment(shelf.disk, "", [lie], label=shelf.label(), keep=True)
    assert shelf.disk.list_dir("") == []


def test_very_many_streams_are_one_file(shelf):
    one = encode_stream(words(1)).to_pybytes()
    template = shelf.encode(1, {0: words(1)}).payloads[0]
    many = [EncodedBundle(n, n, (Payload(*template[:4], one),)) for n in range(1500)]
    info = write_segment(shelf.disk, "", many, label=shelf.label(), keep=True, trusted=True)
    with shelf.read(info) as reader:
        assert len(reader.streams) == len(many)
        reader.verify()
        places = [s.byte_offset for s in reader.streams]
    assert all(b - a == places[1] for a, b in itertools.pairwise(places))
    assert places[1] % 64 == 0
