"""A segment that is numbered anew is the one that would have been written so in the first place."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry
from quiver.segment import SegmentReader, parse_segment_name, write_relabelled, write_segment
from quiver.segment.format import segment_name

LIMITS = LimitsConfig().for_reading()


def batches(shelf, numbers):
    words = pa.array(["x", "y", None, "x"]).dictionary_encode()
    events = pa.record_batch(
        {
            "at": pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC")),
            "word": words,
            "nested": pa.array([[1], None, [], [2, 3]], pa.list_(pa.int32())),
        }
    )
    return [
        {0: events, 63: numbers(1, None)},
        {5: numbers(2, 3, name="other")},
        {0: events.slice(1, 2)},
        {0: numbers(4)},
    ]


def encoded(shelf, numbers, first, at_ns):
    return [
        shelf.encode(first + index, bundle)._replace(ingestion_ns=at_ns)
        for index, bundle in enumerate(batches(shelf, numbers))
    ]


def test_it_is_byte_for_byte_what_would_have_been_written(shelf, numbers) -> None:
    shelf.disk.make_dir("staged")
    old = shelf.label(0, core=0, wal_generation=0, wal_offset=0)
    write_segment(shelf.disk, "staged", encoded(shelf, numbers, 0, 5), label=old, name="one")
    new = shelf.label(41)
    info = write_relabelled(
        shelf.disk,
        "staged/one",
        segment_name(41),
        label=new,
        wal_seq_first=1000,
        ingestion_ns=77,
        limits=LIMITS,
    )
    shelf.disk.make_dir("direct")
    direct = write_segment(shelf.disk, "direct", encoded(shelf, numbers, 1000, 77), label=new)
    assert shelf.load(info) == shelf.load(direct)
    assert (info.segment_seq, info.wal_seq_first, info.wal_seq_last) == (41, 1000, 1003)
    assert parse_segment_name(info.path) == 41
    with SegmentReader.open(shelf.disk, info.path) as reader:
        reader.verify()
        assert [reader.bundle_entry(i).ingestion_ns for i in range(4)] == [77] * 4
        for index, bundle in enumerate(batches(shelf, numbers)):
            assert reader.bundle(index) == bundle


@pytest.mark.parametrize("place", [10, 300, -200, -100, -20, -1])
def test_a_damaged_source_is_found_and_there_is_no_copy(shelf, numbers, place) -> None:
    shelf.disk.make_dir("staged")
    bundles = encoded(shelf, numbers, 0, 5)
    write_segment(shelf.disk, "staged", bundles, label=shelf.label(0), name="one")
    data = bytearray(shelf.disk.map("staged/one"))
    data[place] ^= 1
    shelf.save(bytes(data), "staged/two")
    with pytest.raises(DamagedEntry, match=r"checksum|disagree|magic|length|page|lies outside"):
        write_relabelled(
            shelf.disk,
            "staged/two",
            segment_name(1),
            label=shelf.label(1),
            wal_seq_first=0,
            ingestion_ns=0,
            limits=LIMITS,
        )
    assert [entry.name for entry in shelf.disk.list_dir("")] == ["staged"]
