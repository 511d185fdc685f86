"""A segment in memory is read as one in a file: the same bundles, the same checks, no copy."""

from __future__ import annotations

import pyarrow as pa
import pytest

from quiver.errors import DamagedEntry, DamageError, TornEntry
from quiver.segment import SegmentReader, encode_segment, open_bytes

PLACE = "s3://bucket/queue/01H.batch#0"


@pytest.fixture
def file(shelf, numbers) -> bytes:
    info = shelf.write({0: numbers(1, 2), 5: numbers(3)}, {0: numbers(4)}, {63: numbers(5)})
    return shelf.disk.map(info.path).tobytes()


def read_all(reader):
    return [reader.bundle(index) for index in range(reader.bundle_count)]


def test_it_is_what_the_file_is(shelf, file) -> None:
    path = shelf.save(file, "copy.qseg")
    with open_bytes(file, place=PLACE) as reader, SegmentReader.open(shelf.disk, path) as there:
        assert read_all(reader) == read_all(there)
        assert reader.slots == shelf.slots
        assert reader.footer == there.footer
        assert reader.streams == there.streams
        reader.verify()


def address_of(batch: pa.RecordBatch) -> int:
    return batch.column(0).buffers()[1].address


def test_its_batches_are_views_of_the_bytes(file) -> None:
    data = pa.py_buffer(file)
    with open_bytes(data, place=PLACE) as reader:
        batch = reader.bundle(0)[0]
    assert data.address <= address_of(batch) < data.address + data.size


def test_bytes_at_an_odd_place_are_copied_once_to_an_even_one(file) -> None:
    buffer = pa.allocate_buffer(len(file) + 1)
    odd = memoryview(buffer).cast("B")[1:]
    odd[:] = file
    with open_bytes(odd, place=PLACE) as reader, open_bytes(file, place=PLACE) as even:
        assert read_all(reader) == read_all(even)
        assert address_of(reader.bundle(0)[0]) % 8 == 0


def test_batches_outlive_the_reader_and_the_name_of_the_bytes(file) -> None:
    data = bytearray(file)
    reader = open_bytes(data, place=PLACE)
    batch = reader.bundle(0)[0]
    expected = batch.to_pylist()
    reader.close()
    del reader, data
    assert batch.to_pylist() == expected


def test_every_flipped_byte_is_found_and_located(file) -> None:
    for at in range(0, len(file), 97):
        damaged = bytearray(file)
        damaged[at] ^= 0x10
        with pytest.raises(DamageError) as caught:
            open_bytes(damaged, place=PLACE).verify()
        assert caught.value.path == PLACE


@pytest.mark.parametrize("length", [0, 1, 15, 16, 200])
def test_what_is_cut_short_is_refused(file, length) -> None:
    with pytest.raises((TornEntry, DamagedEntry)) as caught:
        open_bytes(file[:length], place=PLACE)
    assert caught.value.path == PLACE


def test_the_bytes_of_a_segment_can_be_had_without_a_file(shelf, numbers, file) -> None:
    bundles = [{0: numbers(1, 2), 5: numbers(3)}, {0: numbers(4)}, {63: numbers(5)}]
    encoded = [shelf.encode(100 + place, bundle) for place, bundle in enumerate(bundles)]
    parts = encode_segment(encoded, label=shelf.label())
    assert b"".join(bytes(part) for part in parts) == file
