"""The golden segment of the first version, and the page that describes it."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from quiver.disk import LocalDisk
from quiver.segment import SegmentReader, directory, index, manifest, write_segment
from quiver.segment import format as segment
from quiver.slots import Slot

GOLDEN = Path(__file__).parents[1] / "golden"
NAME = "0000000000000042.qseg"
LATER_NAME = "0000000000000043.qseg"
PAGE = Path(segment.__file__).with_name("FORMAT.md").read_text()
CODES = {"u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


@pytest.fixture
def golden() -> SegmentReader:
    return SegmentReader.open(LocalDisk(GOLDEN / "v1" / "segment"), NAME)


def test_the_golden_segment_reads_as_it_was_written(golden):
    golden.verify()
    first, second = golden.bundle(0), golden.bundle(1)
    assert [batch.to_pydict() for batch in first.values()][1] == {"s": ["a", None]}
    assert first[0].column("at").cast(pa.int64()).to_pylist() == [1000, 2000]
    assert first[0].column("level").to_pylist() == ["warn", "info"]
    assert list(second) == [0]
    assert second[0].schema.names == ["at", "x"]
    assert second[0].column("x").to_pylist() == [None]


def test_the_golden_segment_says_where_it_comes_from(golden):
    info = golden.info
    assert (info.segment_seq, info.wal_seq_first, info.wal_seq_last) == (42, 41, 42)
    assert (info.wal_generation, info.wal_offset) == (7, 0x456)
    assert info.ingestion_ns_min == info.ingestion_ns_max - 1 == 1_357_000_000_000_000_000
    assert golden.store_id == "5ca1ab1e" * 4
    assert list(golden.slots) == [Slot(0, "events", 0), Slot(1, "notes", 1)]
    assert [slot.event_time for slot in golden.slots] == ["at", ""]


def test_the_golden_segment_has_its_statistics(golden):
    streams = golden.streams
    assert [s.payload_type for s in streams] == ["events", "notes", "events"]
    assert [(s.row_count, s.chunk_count) for s in streams] == [(2, 1), (2, 1), (1, 1)]
    assert [s.event_ns_max for s in streams] == [2 * 10**9, None, 2 * 10**9]
    assert [s.null_counts for s in streams] == [(0, 0), (1,), (0, 1)]
    assert [s.omitted_columns for s in streams] == [b"\4", b"\0", b"\2"]
    assert golden.representative_schemas()[0].names == ["at", "level", "x"]
    assert [golden.bundle_entry(i).wal_seq for i in (0, 1)] == [41, 42]


def test_the_writer_still_lays_a_segment_out_like_the_golden_one(golden, tmp_path):
    spec = importlib.util.spec_from_file_location("maker", GOLDEN / "make_v1_segment.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    disk = LocalDisk(tmp_path)
    info = write_segment(disk, "", maker.bundles(), label=maker.LABEL)
    written = SegmentReader.open(disk, info.path)
    assert [written.bundle(i) for i in (0, 1)] == [golden.bundle(i) for i in (0, 1)]
    assert [written.bundle_entry(i) for i in (0, 1)] == [golden.bundle_entry(i) for i in (0, 1)]
    assert [s.omitted_columns for s in written.streams] == [b"\4", b"\0", b"\2"]


LATER = {"declared_schema"}
"""Columns that are on the page and written since, and that the golden file has not."""


@pytest.mark.parametrize("name", ["FOOTER", "EXTENSION", "INDEX", "CHECKSUM", "TRAILER"])
def test_the_tables_of_the_page_are_the_structs_of_the_code(name):
    table = re.search(rf"\(`{name}`\)\n\n(.*?)\n\n", PAGE, re.DOTALL)
    layout, end = "<", 0
    for row in table[1].splitlines()[2:]:
        offset, size, kind = (cell.strip() for cell in row.split("|")[1:4])
        assert int(offset) == end
        end += int(size)
        layout += CODES.get(kind, f"{size}s")
    assert layout == getattr(segment, name).format
    assert struct.calcsize(layout) == end


def test_the_columns_of_the_index_are_on_the_page():
    section = PAGE.split("### Index\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (yes|no) \|", section, re.MULTILINE)
    assert rows == [(f.name, str(f.type), "yes" if f.nullable else "no") for f in index._SCHEMA]
    assert all(f"`{key.decode()}`" in section for key in index._SCHEMA.metadata)


def test_the_golden_segment_with_an_index_reads_as_it_was_written(golden):
    later = SegmentReader.open(LocalDisk(GOLDEN / "v1" / "segment"), LATER_NAME)
    later.verify()
    assert [later.bundle(i) for i in (0, 1)] == [golden.bundle(i) for i in (0, 1)]
    assert golden.index is None
    at, level = later.index.columns(0, 2)
    assert [int.from_bytes(end, "little") for end in at.stream] == [1000, 2000]
    assert level.stream == (b"info", b"warn")
    assert later.chunk(0, 0, columns=[1]) == golden.bundle(0)[0].select(["level"])
    assert [s.declared_schema is None for s in later.streams] == [False, True, True]


@pytest.mark.parametrize("title", ["Directory", "Manifest"])
def test_the_columns_of_the_page_are_those_of_the_files(golden, title):
    section = PAGE.split(f"### {title}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (yes|no) \|", section, re.MULTILINE)
    rows = [row for row in rows if row[0] not in LATER]
    data = (GOLDEN / "v1" / "segment" / NAME).read_bytes()
    start = getattr(golden.footer, f"{title.lower()}_offset")
    length = getattr(golden.footer, f"{title.lower()}_length")
    schema = pa.ipc.open_file(data[start : start + length]).schema
    assert rows == [(f.name, str(f.type), "yes" if f.nullable else "no") for f in schema]
    page = PAGE.replace("<slot_id>", "0")
    assert all(f"`{key.decode()}`" in page for key in schema.metadata or {} if key[-1:] != b"1")


def test_the_columns_of_the_golden_file_are_those_still_written(golden):
    kinds = dict((*directory._CORE, *directory._EXTRAS))
    assert golden.streams[0].crc32c is not None
    assert all(f"| {name} | {kind} |" in PAGE for name, kind in kinds.items())
    assert all(f"| {field.name} | {field.type} |" in PAGE for field in manifest._SCHEMA)


def test_the_hex_dump_of_the_page_is_the_golden_file():
    dump = PAGE.split("## 3.")[1].split("## 4.")[0]
    data = (GOLDEN / "v1" / "segment" / NAME).read_bytes()
    lines = re.findall(r"^ {4}([0-9a-f]{6})  ((?:[0-9a-f]{2} )+)", dump, re.MULTILINE)
    assert len(lines) > 20
    for offset, digits in lines:
        start, shown = int(offset, 16), bytes.fromhex(digits)
        assert data[start : start + len(shown)] == shown, offset
