"""Streams read many at a time: what is given is what each gives by itself, and else nothing is."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quiver
from quiver import ipc_alike
from quiver.config import LimitsConfig
from quiver.engine.readers import OpenedSegment
from quiver.errors import DamageError
from quiver.ipc import encode_file, encode_stream
from quiver.ipc_alike import read_alike
from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.ipc_build import FIRST_BLOCK
from quiver.ipc_file import ArrowFile
from quiver.ipc_messages import file_blocks, file_footer
from quiver.ipc_plain import deciding_bytes
from quiver.segment import SegmentReader
from quiver.segment.alike import TOGETHER
from quiver.testing.same import difference
from tests.segment.test_kept_streams import words, written

LIMITS = LimitsConfig().for_reading()
FILES = 4


def file_of(batch):
    """The file that becomes of a payload."""
    stream = memoryview(encode_stream(batch).to_pybytes())
    return FILE_HEAD + bytes(stream) + FileAround.of(stream).tail(stream)


@functools.cache
def whole():
    """Four files that are alike, and one behind another where each lies."""
    files = [file_of(words(number, 20 + number)) for number in range(FILES)]
    ends = [sum(map(len, files[: place + 1])) for place in range(FILES)]
    return b"".join(files), [(end - len(file), end) for file, end in zip(files, ends, strict=True)]


def found_in(data, places, **options):
    """What is given, by number of the file."""
    alike = read_alike(pa.py_buffer(data), places, limits=LIMITS, **options)
    return {n: batch for some in alike for n, batch in zip(some.places, some.batches, strict=True)}


def alone(data, place):
    """What the file gives by itself; None if that is refused."""
    start, end = place
    try:
        file = ArrowFile(data[start:end], limits=LIMITS)
        return file.chunk(0) if file.chunk_count == 1 else None
    except DamageError:
        return None


def check_against_each(data, places):
    for number, batch in found_in(data, places).items():
        expected = alone(data, places[number])
        assert expected is not None
        assert difference(expected, batch) is None


def test_all_of_one_schema_are_given():
    data, places = whole()
    for validate in (True, False):
        found = found_in(data, places, validate=validate)
        assert [difference(words(n, 20 + n), found[n]) for n in range(FILES)] == [None] * FILES


def test_few_columns_are_those_that_are_chosen():
    data, places = whole()
    (found,) = read_alike(
        pa.py_buffer(data),
        places,
        limits=LIMITS,
        choose=lambda schema: (schema.names.index("word"),),
    )
    assert found.columns == (1,)
    assert [batch.schema.names for batch in found.batches] == [["word"]] * FILES


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_is_believed_here_and_refused_elsewhere(bits):
    data, places = whole()
    start, end = places[1]
    for at in range(start, end, 11):
        damaged = bytearray(data)
        damaged[at] ^= bits
        check_against_each(bytes(damaged), places)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_anywhere_do_harm_or_are_believed_here_alone(data):
    content, places = whole()
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        start, end = places[data.draw(st.integers(0, FILES - 1))]
        at = data.draw(st.integers(start, end - 8) | st.integers(end - 900, end - 8))
        number = data.draw(st.sampled_from([0, 1, 8, 0xFFFF, 1 << 31, (1 << 63) - 1, 1 << 63]))
        damaged[at : at + 8] = number.to_bytes(8, "little")
    check_against_each(bytes(damaged), places)


def fitting(data):
    """Which of the files are laid out as the first."""
    starts, ends = np.array(whole()[1]).T
    view = memoryview(data)
    return ipc_alike._layout(view[: ends[0]]).fit(view, starts, ends, validate=True).tolist()


def test_each_byte_that_decides_is_compared_and_each_length_followed():
    data, places = whole()
    start, end = places[1]
    stream = memoryview(data)[start + len(FILE_HEAD) : end]
    messages = FileAround.of(stream[: len(encode_stream(words(1, 21)))]).messages
    footer, _ = file_footer(memoryview(data)[start:end])
    assert fitting(data) == [True] * FILES
    last = messages[-1]
    at = start + len(FILE_HEAD) + last.start
    block = start + footer + FIRST_BLOCK + 24 * (len(messages) - 1) + 8 + 16
    plain, seen, refused = [0] * len(messages), 0, 0
    for message in messages:
        begin = start + len(FILE_HEAD) + message.start
        for place in deciding_bytes(memoryview(data)[begin : begin + message.metadata_bytes]):
            changed = bytearray(data)
            changed[begin + place] ^= 1
            if fitting(bytes(changed))[1]:  # It is another layout, and as plain.
                seen += 1
                blocks = file_blocks(memoryview(changed)[start:end])
                assert [b.decoded_bytes(n) for b in blocks for n in range(b.count)] == plain
            else:
                refused += 1
    assert refused > seen
    for length in (last.body_bytes - 8, last.body_bytes + 8, -8, 1 << 62, -(1 << 63)):
        changed = bytearray(data)
        for place in (at + last.length_place, block):  # Both say so, and yet it does not end there.
            assert int.from_bytes(changed[place : place + 8], "little") == last.body_bytes
            changed[place : place + 8] = length.to_bytes(8, "little", signed=True)
        assert fitting(bytes(changed))[1] is False
        changed[at + last.length_place :][:8] = data[at + last.length_place :][:8]
        assert fitting(bytes(changed))[1] is False


def test_places_that_make_no_sense_are_no_files():
    data, places = whole()
    for wrong in (
        places[::-1],
        [(start - 1, end) for start, end in places],
        [(start, end + 1) for start, end in places],
        [(start, start + 9) for start, _ in places],
        [*places, (places[-1][1], places[-1][1] + 500)],
        [(0, end) for _, end in places],
    ):
        assert found_in(data, wrong) == {}
    assert found_in(data, places[:2]) == {}


def test_other_schemas_and_other_writers_are_told_apart():
    other = [pa.record_batch({"a": pa.array(range(n, n + 90))}) for n in range(3)]
    compressed = encode_file(other[0].schema, [other[0]], compression="lz4").to_pybytes()
    plain = encode_file(other[0].schema, [other[0]]).to_pybytes()
    files = [file_of(words(1)), *map(file_of, other), compressed, plain]
    files += [file_of(words(2)), file_of(words(3))]
    data, places = b"", []
    for file in files:
        places.append((len(data), len(data) + len(file)))
        data += file
    found = found_in(data, places)
    assert sorted(found) == [0, 1, 2, 3, 6, 7]
    check_against_each(data, places)


def test_schemas_beyond_the_limits_are_not_read():
    data, places = whole()
    few = LimitsConfig(columns=3)
    assert read_alike(pa.py_buffer(data), places, limits=few) == []
    short = LimitsConfig(rows=21)
    assert read_alike(pa.py_buffer(data), places, limits=short) == []


@pytest.fixture
def many(shelf):
    """More streams than are read at once."""
    count = TOGETHER + 20
    bundles = [{0: words(n % 28, 400 + n)} for n in range(count)]
    return written(shelf, bundles), [bundle[0] for bundle in bundles]


def test_a_damaged_stream_costs_itself(shelf, many):
    info, batches = many
    data = bytearray(shelf.load(info))
    hurt = shelf.read(info).streams[5]
    data[hurt.byte_offset + hurt.byte_length // 2] ^= 1
    with SegmentReader(shelf.disk, info.path, memoryview(data)) as reader:
        opened = OpenedSegment(reader)
        given_ids = {
            entry.stream_id
            for kin in reader.kin([s.stream_id for s in reader.streams])
            for entry in kin.streams
        }
        assert given_ids == {s.stream_id for s in reader.streams} - {hurt.stream_id}
        for index, batch in enumerate(batches):
            if index == 5:
                with pytest.raises(DamageError):
                    opened.bundle(index)
            else:
                assert difference(batch, opened.bundle(index)[0]) is None


def test_subscribers_get_each_whatever_is_asked_for_first(shelf, many):
    info, batches = many
    with shelf.read(info) as reader:
        opened = OpenedSegment(reader)
        for index in (70, 3, 83, 0, *range(84)):
            assert difference(batches[index], opened.bundle(index)[0]) is None
        again = OpenedSegment(reader)
        tables = list(again.tables(2, 80, 0))
        assert [table.num_rows for table in tables] == [400 + n for n in range(2, 82)]


def test_of_streams_whose_pages_have_checksums_a_few_columns_are_read_alone(shelf):
    bundles = [{0: pa.record_batch({"a": range(40), f"b{n}": range(40)})} for n in range(4)]
    info = written(shelf, bundles, keep=False)
    with shelf.read(info) as reader:
        ids = [stream.stream_id for stream in reader.streams]
        assert len(ids) == 4
        assert list(reader.kin(ids, choose=lambda _: (0,))) == []
        for index, bundle in enumerate(bundles):
            found = reader.chunk(ids[index], 0, columns=[0])
            assert found.equals(bundle[0].select([0]))


def test_streams_of_two_schemas_are_scanned_in_order_of_their_bundles(tmp_path):
    config = {"segment": {"dictionaries": "keep"}}
    given_rows = []
    with quiver.open(tmp_path, slots=["a"], config=config, worker=False) as store:
        for number in range(20):
            batch = words(number, 500)
            batch = batch.drop_columns(["level"]) if number % 5 == 4 else batch
            store.append({"a": batch})
            given_rows += batch.column("word").to_pylist()
        store.finalize()
    for options in ({}, {"verify": "off"}, {"columns": ["word"]}):
        scan = quiver.scan(tmp_path, slot="a", **options)
        for _ in range(2):
            assert scan.to_table().column("word").to_pylist() == given_rows
            found = list(scan.to_reader())
            assert [batch.num_rows for batch in found] == [500] * 20
            assert [w for batch in found for w in batch.column("word").to_pylist()] == given_rows
    assert quiver.scan(tmp_path, slot="a", where=pc.field("level").is_null()).count_rows() > 0
