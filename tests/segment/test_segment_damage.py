from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import crc32c
import pyarrow as pa
import pytest

from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, DamageError, TornEntry, VersionError
from quiver.segment import SegmentReader
from quiver.segment.format import (
    FOOTER_V1_BYTES,
    TRAILER_BYTES,
    decode_footer,
    decode_trailer,
    encode_tail,
)

TAIL = 106 + TRAILER_BYTES


class Instead(LocalDisk):
    """Maps these bytes, whatever the file holds."""

    data = b""

    def map(self, path: str) -> memoryview:
        return memoryview(self.data)


@pytest.fixture
def written(shelf, numbers) -> tuple[SegmentReader, bytes, Callable[[bytes], SegmentReader]]:
    """A small segment, its bytes, and a way to open other bytes in its place."""
    text = pa.record_batch({"s": ["some", None], "d": pa.array(["x", "y"]).dictionary_encode()})
    info = shelf.write({0: numbers(1), 5: text}, {0: numbers(2, 3)})
    disk = Instead(shelf.disk.root)

    def reopen(data: bytes) -> SegmentReader:
        disk.data = data
        return SegmentReader.open(disk, info.path)

    return shelf.read(info), shelf.load(info), reopen


def contents(reader: SegmentReader) -> list[object]:
    bundles = [reader.bundle(index) for index in range(reader.bundle_count)]
    entries = [reader.bundle_entry(index) for index in range(reader.bundle_count)]
    about = (reader.info, reader.streams, reader.slots, reader.store_id)
    values = [{s: (b.schema, b.to_pylist()) for s, b in bundle.items()} for bundle in bundles]
    return [values, entries, about, reader.representative_schemas()]


def test_any_flipped_byte_is_found_by_verify_and_never_changes_what_is_read(written):
    good, data, reopen = written
    expected = contents(good)
    silent = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            reader = reopen(bytes(damaged))
            assert contents(reader) == expected, place
        except (DamageError, VersionError):
            continue
        silent += 1
        with pytest.raises(DamagedEntry, match="checksum"):
            reader.verify()
    # Between streams lie zeros that nobody reads, at the end the checksum of the whole file; and
    # the index is needed by nobody who reads all of a stream.
    padding = sum(-(stream.byte_offset + stream.byte_length) % 64 for stream in good.streams[:-1])
    assert silent == padding + 4 + good.footer.extension.index_length


def test_a_file_cut_anywhere_does_not_open(written):
    _, data, reopen = written
    for length in range(len(data)):
        with pytest.raises(DamageError) as caught:
            reopen(data[:length])
        assert isinstance(caught.value, TornEntry) or length >= FOOTER_V1_BYTES + TRAILER_BYTES


def test_a_file_with_bytes_behind_its_end_does_not_open(written):
    _, data, reopen = written
    with pytest.raises(DamagedEntry, match="magic"):
        reopen(data + b"\0")


def test_every_error_names_file_and_place(written, shelf):
    good, data, reopen = written
    stream = good.streams[1]
    place = stream.byte_offset + stream.byte_length // 2
    reader = reopen(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(DamagedEntry, match="stream 1's checksum") as caught:
        reader.chunk(1, 0)
    assert caught.value.path == shelf.disk.locate(good.info.path)
    assert caught.value.offset == stream.byte_offset
    assert caught.value.expected == f"{stream.crc32c:#010x}"
    for read in (lambda: reader.chunk(1, 0, columns=[0]), lambda: reader.stream_schema(1)):
        with pytest.raises(DamagedEntry, match="a page's checksum") as caught:
            read()
        assert caught.value.path == shelf.disk.locate(good.info.path)
        assert caught.value.offset == max(stream.byte_offset, place // 4096 * 4096)
    assert reader.chunk(0, 0).num_rows == 1


@pytest.mark.parametrize("table", ["directory", "manifest"])
def test_a_damaged_table_is_named_with_its_offset(written, table):
    good, data, reopen = written
    offset = getattr(good.footer, f"{table}_offset")
    place = offset + getattr(good.footer, f"{table}_length") // 2
    with pytest.raises(DamagedEntry, match=f"the {table}'s checksum") as caught:
        reopen(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert caught.value.offset == offset


def resealed(data: bytes, **changes: int) -> bytes:
    """The file with other footer fields, and every checksum as if they had been meant."""
    trailer = decode_trailer(data[-TRAILER_BYTES:], file_bytes=len(data))
    start = len(data) - TRAILER_BYTES - trailer.footer_length
    footer = decode_footer(data[start:-TRAILER_BYTES], offset=start)
    extension = footer.extension
    for name, value in changes.items():
        owner = footer if hasattr(footer, name) else extension
        object.__setattr__(owner, name, value)
    return data[:start] + encode_tail(footer, zlib.crc32(data[:start]))


@pytest.mark.parametrize(
    "change,message",
    [
        ({"stream_count": 3}, "disagree about its rows"),
        ({"stream_count": 1}, "disagree about its rows"),
        ({"bundle_count": 3}, "disagree about its rows"),
        ({"directory_offset": 0}, "directory's checksum"),
        ({"manifest_length": 8}, "manifest's checksum"),
        ({"directory_crc32c": 1}, "directory's checksum"),
        ({"segment_seq": 8}, "another one's name"),
    ],
)
def test_a_footer_that_disagrees_with_the_rest_is_damage_even_with_good_checksums(
    written, change, message
):
    _, data, reopen = written
    with pytest.raises(DamagedEntry, match=message):
        reopen(resealed(data, **change))


@pytest.mark.parametrize("change", [{"wal_seq_first": 99}, {"wal_seq_last": 102}])
def test_verify_holds_the_sequences_of_the_footer_against_the_bundles(written, change):
    _, data, reopen = written
    reader = reopen(resealed(data, **change))
    assert reader.bundle_count == 2
    with pytest.raises(DamagedEntry, match="log sequences"):
        reader.verify()


@pytest.mark.parametrize(
    "column,old,new,message",
    [
        ("chunk_count", 2, 3, "about its chunks"),
        ("row_count", 3, 4, "about its rows"),
    ],
)
def test_verify_holds_the_counts_of_the_directory_against_the_streams(
    shelf, numbers, column, old, new, message
):
    info = shelf.write({0: numbers(1)}, {0: numbers(2, 3)})
    data = shelf.load(info)
    footer = shelf.read(info).footer
    table = data[footer.directory_offset :][: footer.directory_length]
    file = pa.ipc.open_file(table)
    batch = file.get_batch(0)
    place = batch.schema.get_field_index(column)
    changed = pa.array([new], batch.schema.types[place])
    assert batch.column(place).to_pylist() == [old]
    columns = [*batch.columns[:place], changed, *batch.columns[place + 1 :]]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=batch.schema))
    new_table = sink.getvalue().to_pybytes()
    assert len(new_table) == len(table)
    data = data.replace(table, new_table)
    reader = SegmentReader.open(
        shelf.disk, shelf.save(resealed(data, directory_crc32c=crc32c.crc32c(new_table)))
    )
    with pytest.raises(DamagedEntry, match=message):
        reader.verify()


def test_each_kind_of_wrong_end_has_its_own_error(written):
    _, data, reopen = written
    newer = data[:-TAIL] + b"\x02" + bytes(33) + struct.pack("<I", 34) + data[-12:-4]
    cases = [
        (data[-40:], TornEntry, "shorter"),
        (data[:-12] + b"QUIVER\0X" + data[-4:], DamagedEntry, "magic"),
        (data[:-16] + struct.pack("<I", 33) + data[-12:], DamagedEntry, "impossible length"),
        (data[:-TAIL] + b"\x02" + data[-TAIL + 1 :], DamagedEntry, "footer's checksum"),
        (newer + struct.pack("<I", zlib.crc32(newer)), VersionError, "version 2"),
        (newer + bytes(4), DamagedEntry, "checksum"),
    ]
    for changed, error, message in cases:
        with pytest.raises(error, match=message):
            reopen(changed)


def test_a_sound_segment_passes_verify_twice_and_after_use(written):
    good, _, _ = written
    good.verify()
    good.bundle(0)
    good.verify()
