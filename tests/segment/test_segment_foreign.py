"""Both directions of the promise that the files are version 1 of the ``.qseg`` format.

The files here are laid out, and read, from that format's tables alone: ``upstream_kit``.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from upstream_kit import arrow_file, assemble, read_v1

from quiver.errors import DamagedEntry, InputError
from quiver.segment import BundleEntry, SegmentReader, SlotRef, read_info
from quiver.segment.catalog import SEQ_UNKNOWN

LOGS = pa.schema([("body", pa.string()), ("level", pa.dictionary(pa.uint8(), pa.string()))])
ATTRS = pa.schema([("key", pa.string()), ("value", pa.int64())])


def logs(*bodies: str) -> pa.RecordBatch:
    levels = pa.DictionaryArray.from_arrays(
        pa.array([0] * len(bodies), pa.uint8()), pa.array(["INFO"])
    )
    return pa.record_batch([pa.array(bodies), levels], schema=LOGS)


def attrs(**values: int) -> pa.RecordBatch:
    return pa.record_batch([list(values), list(values.values())], schema=ATTRS)


LOG_STREAM = (30, arrow_file(LOGS, logs("a", "b"), logs("c")), 3, 2)
ATTR_STREAM = (31, arrow_file(ATTRS, attrs(x=1)), 1, 1)
REFS = [[(31, 1, 0), (30, 0, 0)], [(30, 0, 1)]]


@pytest.mark.parametrize(
    "behind_footer", [b"", b"\xff" * 9, b"QVX0" + bytes(100), b"\xff" * 462, b"\xff" * 463]
)
def test_a_file_of_version_1_opens_with_or_without_more_behind_its_footer(shelf, behind_footer):
    path = shelf.save(assemble([LOG_STREAM, ATTR_STREAM], REFS, behind_footer=behind_footer))
    with SegmentReader.open(shelf.disk, path) as reader:
        assert reader.footer.extension is None
        assert reader.slots is None
        assert reader.store_id is None
        assert reader.bundle_count == 2
        assert read_info(shelf.disk, path) == reader.info
        first, second = reader.bundle(0), reader.bundle(1)
        assert reader.bundle_entry(0) == BundleEntry(0, (SlotRef(31, 1, 0), SlotRef(30, 0, 0)))
        reader.verify()
    assert list(first) == [30, 31]
    assert first[30].equals(logs("a", "b"))
    assert first[31].equals(attrs(x=1))
    assert second[30].equals(logs("c"))


def test_what_only_our_footers_say_is_unknown_of_another_writers_file(shelf):
    path = shelf.save(assemble([LOG_STREAM], [[(30, 0, 0)]]))
    info = read_info(shelf.disk, path)
    assert info == SegmentReader.open(shelf.disk, path).info
    assert (info.segment_seq, info.bundle_count, info.stream_count) == (7, 1, 1)
    assert info.wal_seq_first is info.wal_seq_last is info.wal_generation is None
    assert info.wal_offset is info.ingestion_ns_min is info.ingestion_ns_max is None


def test_another_writers_file_may_have_any_name(shelf):
    path = shelf.save(assemble([LOG_STREAM], [[(30, 0, 0)]]), "copy.qseg")
    assert read_info(shelf.disk, path).segment_seq == SEQ_UNKNOWN


def test_the_columns_that_only_we_write_are_none(shelf):
    path = shelf.save(assemble([LOG_STREAM], [[(30, 0, 0)]]))
    (stream,) = SegmentReader.open(shelf.disk, path).streams
    assert stream.payload_type is stream.crc32c is stream.null_counts is None
    assert stream.ingestion_ns_min is stream.event_ns_max is stream.omitted_columns is None


def test_the_checksum_of_another_writers_file_is_checked_when_it_is_opened(shelf):
    data = bytearray(assemble([LOG_STREAM], [[(30, 0, 0)]]))
    data[100] ^= 1
    path = shelf.save(bytes(data))
    for read in (SegmentReader.open, read_info):
        with pytest.raises(DamagedEntry, match="checksum is wrong") as caught:
            read(shelf.disk, path)
        assert caught.value.path == shelf.disk.locate(path)


def test_streams_may_start_anywhere_in_another_writers_file(shelf):
    odd = (31, arrow_file(ATTRS, attrs(x=1)), 1, 1)
    path = shelf.save(assemble([odd, LOG_STREAM], [[(31, 0, 0), (30, 1, 1)]], align=1))
    assert SegmentReader.open(shelf.disk, path).bundle(0)[30].equals(logs("c"))


@pytest.mark.parametrize("items", [[5, 6], [5, None], [None, None]])
def test_item_counts_of_another_writer_are_read_known_or_not(shelf, items):
    path = shelf.save(assemble([LOG_STREAM], [[(30, 0, 0)], [(30, 0, 1)]], items=items))
    reader = SegmentReader.open(shelf.disk, path)
    assert [reader.bundle_entry(i).item_count for i in (0, 1)] == items


def test_representative_schemas_are_found_from_the_streams_where_no_one_wrote_them(shelf):
    more = ATTRS.append(pa.field("unit", pa.string()))
    wide = (31, arrow_file(more, pa.record_batch([["k"], [1], ["s"]], schema=more)), 1, 1)
    clash = pa.schema([("key", pa.int64())])
    odd = (32, arrow_file(clash, pa.record_batch([[1]], schema=clash)), 1, 1)
    text = (32, arrow_file(ATTRS, attrs(x=1)), 1, 1)
    refs = [[(31, 0, 0), (32, 2, 0)], [(31, 1, 0), (32, 3, 0)]]
    path = shelf.save(assemble([ATTR_STREAM, wide, odd, text], refs))
    assert SegmentReader.open(shelf.disk, path).representative_schemas() == {31: more}


def test_another_writers_stream_that_is_no_arrow_file_is_damage(shelf):
    path = shelf.save(assemble([(30, b"ARROW1 and nothing else", 1, 1)], [[(30, 0, 0)]]))
    reader = SegmentReader.open(shelf.disk, path)
    with pytest.raises(DamagedEntry, match="Arrow file cannot be read") as caught:
        reader.bundle(0)
    assert caught.value.path == shelf.disk.locate(path)


def test_a_file_with_many_bundles_and_no_streams_opens(shelf):
    empty = [(0, arrow_file(ATTRS, attrs(x=1)), 1, 1)]
    path = shelf.save(assemble(empty, [[] for _ in range(1000)]))
    reader = SegmentReader.open(shelf.disk, path)
    assert reader.bundle(999) == {}
    with pytest.raises(InputError, match="no bundle 1000"):
        reader.bundle(1000)


def test_a_reader_of_version_1_finds_our_bundles(shelf):
    wide = pa.record_batch({"body": ["e"], "extra": [1]})
    bundles = [{0: logs("a", "b"), 5: attrs(x=1)}, {0: logs("c")}, {0: wide, 63: attrs(y=2)}]
    found = read_v1(shelf.load(shelf.write(*bundles)))
    assert [list(batches) for batches in found] == [[0, 5], [0], [0, 63]]
    for batches, written in zip(found, bundles, strict=True):
        for slot_id, batch in batches.items():
            assert batch.schema.equals(written[slot_id].schema, check_metadata=True)
            assert batch.to_pylist() == written[slot_id].to_pylist()


def test_version_1_columns_come_first_and_with_the_types_that_it_gives(shelf):
    data = shelf.load(shelf.write({0: logs("a")}))
    _, _, _, d_offset, d_length, m_offset, m_length = struct.unpack("<HIIQIQI", data[-142:][:34])
    streams = pa.ipc.open_file(data[d_offset:][:d_length]).schema
    bundles = pa.ipc.open_file(data[m_offset:][:m_length]).schema
    assert streams.names[:7] == [
        "stream_id",
        "slot_id",
        "schema_fingerprint",
        "byte_offset",
        "byte_length",
        "row_count",
        "chunk_count",
    ]
    assert not any(field.nullable for field in list(streams)[:7])
    assert bundles.names[:2] == ["bundle_index", "slot_refs"]
    assert bundles.field("slot_refs").type.value_field.name == "item"
    assert bundles.field("slot_refs").type.value_field.nullable
    assert "item_count" not in bundles.names


def test_all_metadata_that_we_write_is_text(shelf):
    data = shelf.load(shelf.write({0: logs("a"), 5: attrs(x=1)}))
    _, _, _, d_offset, d_length, *_ = struct.unpack("<HIIQIQI", data[-142:][:34])
    metadata = pa.ipc.open_file(data[d_offset:][:d_length]).schema.metadata
    assert metadata[b"quiver.format"] == b"1"
    assert all(value.decode().isascii() for value in metadata.values())
