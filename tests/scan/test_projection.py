"""A scan of few columns reads and checks those columns, and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quiver
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, MissingError
from quiver.segment import SegmentReader
from quiver.segment.pages import PAGE_BYTES, PageChecks, page_checksums

SEGMENT = "core_0/segments/0000000000000000.qseg"
ROWS = 4_000


def wide(seed: int = 0) -> pa.Table:
    lot = np.random.default_rng(seed)
    columns = {f"c{i}": pa.array(lot.integers(0, 1 << 40, ROWS)) for i in range(10)}
    columns["text"] = pa.array([f"row {n} of {seed}" for n in range(ROWS)])
    levels = pa.array([n % 7 for n in range(ROWS)], pa.int8())
    names = pa.array([f"level {n}" for n in range(7)])
    columns["level"] = pa.DictionaryArray.from_arrays(levels, names)
    columns["list"] = pa.array([[n, n + 1] for n in range(ROWS)])
    return pa.table(columns)


def write(path, *tables, **segment):
    config = {"segment": segment} if segment else None
    with quiver.open(path, slots=["rows"], worker=False, config=config) as store:
        for table in tables:
            store.append({"rows": table})
        store.finalize()
    return path


def damage(path, offset: int) -> None:
    file = path / SEGMENT
    data = bytearray(file.read_bytes())
    data[offset] ^= 0xFF
    file.chmod(0o600)
    file.write_bytes(data)


def place_of(path, column: str) -> int:
    """Find a byte in the middle of a column's last buffer, in the file."""
    reader = SegmentReader.open(LocalDisk(path), SEGMENT)
    array = reader.chunk(0, 0).column(column)
    buffer = array.buffers()[-1]
    return buffer.address + buffer.size // 2 - reader._buffer.address


@pytest.mark.parametrize("columns", [["c3"], ["text", "c0"], ["level"], ["list", "c9", "c1"], []])
def test_columns_come_as_from_the_whole_in_the_order_asked_for(tmp_path, columns):
    tables = [wide(n) for n in range(3)]
    write(tmp_path, *tables)
    found = quiver.scan(tmp_path, slot="rows", columns=columns).to_table()
    assert found.num_rows == 3 * ROWS
    assert found.column_names == columns
    for name in columns:
        expected = [value for table in tables for value in table[name].to_pylist()]
        assert found[name].to_pylist() == expected


def test_all_buffers_of_a_scan_lie_in_the_mapped_file(tmp_path):
    write(tmp_path, *(wide(n) for n in range(3)))
    disk, maps = LocalDisk(tmp_path), []
    table = quiver.scan(tmp_path, slot="rows", columns=["c1", "text", "level", "list"]).to_table()
    with open("/proc/self/maps") as file:
        for line in file:
            span, *_, name = line.split(maxsplit=5)
            if name.strip().endswith(".qseg"):
                maps.append(tuple(int(end, 16) for end in span.split("-")))
    seen = 0
    for column in table.columns:
        for chunk in column.chunks:
            arrays = [chunk]
            if isinstance(chunk, pa.DictionaryArray):
                arrays = [chunk.indices, chunk.dictionary]
            for array in arrays:
                for buffer in filter(None, array.buffers()):
                    assert any(low <= buffer.address < high for low, high in maps)
                    seen += 1
    assert seen >= 3 * 6
    disk.close()


def test_damage_costs_only_the_columns_that_lie_on_its_page(tmp_path):
    write(tmp_path, wide())
    whole = quiver.scan(tmp_path, slot="rows").to_table()
    damage(tmp_path, place_of(tmp_path, "c3"))
    others = [n for n in whole.column_names if n != "c3"]
    assert quiver.scan(tmp_path, slot="rows", columns=others).to_table() == whole.select(others)
    with pytest.raises(DamagedEntry, match="page's checksum") as caught:
        quiver.scan(tmp_path, slot="rows", columns=["c3"]).to_table()
    assert caught.value.path == str(tmp_path / SEGMENT)
    assert caught.value.offset == place_of_page(tmp_path, caught.value.offset)
    with pytest.raises(DamagedEntry, match="stream 0's checksum"):
        quiver.scan(tmp_path, slot="rows").to_table()
    with pytest.raises(DamagedEntry):
        quiver.scan(tmp_path, slot="rows", where=pc.field("c3") > 5).to_table()
    with pytest.raises(DamagedEntry, match="checksum"):
        quiver.scan(tmp_path, slot="rows", columns=["c1"], verify="full").to_table()
    assert quiver.scan(tmp_path, slot="rows", verify="off").to_table().num_rows == ROWS


def place_of_page(path, offset: int) -> int:
    """Pages begin at multiples of their size in the file."""
    return offset // PAGE_BYTES * PAGE_BYTES


def test_a_damaged_index_costs_the_skipping_and_no_data(tmp_path):
    write(tmp_path, wide(1), wide(2))
    whole = quiver.scan(tmp_path, slot="rows").to_table()
    reader = SegmentReader.open(LocalDisk(tmp_path), SEGMENT)
    extra = reader.footer.extension
    damage(tmp_path, extra.index_offset + extra.index_length // 2)
    none = pc.field("c1") < 0
    scan = quiver.scan(tmp_path, slot="rows", where=none, columns=["c2"])
    assert scan.to_table().num_rows == 0
    assert scan.skipped.chunks == 0
    assert quiver.scan(tmp_path, slot="rows").to_table() == whole
    with pytest.raises(DamagedEntry, match="checksum"):
        SegmentReader.open(LocalDisk(tmp_path), SEGMENT).verify()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_segments_read_the_same_and_are_checked_too(tmp_path, compression):
    plain = write(tmp_path / "plain", wide(), wide(1))
    small = write(tmp_path / "small", wide(), wide(1), compression=compression)
    assert (small / SEGMENT).stat().st_size < (plain / SEGMENT).stat().st_size * 0.9
    for columns in (None, ["c4"], ["level", "text"]):
        one, two = (quiver.scan(p, slot="rows", columns=columns) for p in (plain, small))
        assert two.to_table() == one.to_table()
        assert (
            two.select(where=pc.field("c4") > 1 << 39).to_table()
            == one.select(where=pc.field("c4") > 1 << 39).to_table()
        )
    with quiver.open(small) as store:
        bundle = store.subscribe("reader").poll()
        assert bundle["rows"].to_pydict() == wide().to_pydict()
        bundle.ack()
    reader = SegmentReader.open(LocalDisk(small), SEGMENT)
    reader.verify()
    stream = reader.streams[0]
    damage(small, stream.byte_offset + stream.byte_length // 2)
    with pytest.raises(DamagedEntry, match="checksum"):
        quiver.scan(small, slot="rows", columns=["c9"]).to_table()


def test_a_stream_that_lacks_all_the_columns_gives_rows_of_nulls(tmp_path):
    write(tmp_path, pa.table({"a": [1, 2]}), pa.table({"b": [3]}))
    scan = quiver.scan(tmp_path, slot="rows", columns=["b"])
    assert scan.to_table().to_pydict() == {"b": [None, None, 3]}
    assert scan.to_table().to_pydict() == {"b": [None, None, 3]}


def test_what_was_checked_once_is_not_checked_again_by_the_same_scan(tmp_path):
    write(tmp_path, wide())
    scan = quiver.scan(tmp_path, slot="rows", columns=["c3"])
    before = scan.to_table()
    damage(tmp_path, place_of(tmp_path, "c5"))
    assert scan.to_table() == before
    with pytest.raises(DamagedEntry):
        quiver.scan(tmp_path, slot="rows").to_table()


def test_a_segment_that_was_replaced_since_is_another_one(tmp_path):
    write(tmp_path, wide())
    scan = quiver.scan(tmp_path, slot="rows")
    assert scan.count_rows() == ROWS
    other = write(tmp_path / "other", wide(7))
    (other / SEGMENT).rename(tmp_path / SEGMENT)
    with pytest.raises(MissingError, match="another one"):
        scan.to_table()


@pytest.mark.parametrize("length", [1, 100, PAGE_BYTES, PAGE_BYTES + 1, 3 * PAGE_BYTES - 64])
@pytest.mark.parametrize("offset", [0, 64, PAGE_BYTES - 64, PAGE_BYTES])
def test_any_flipped_byte_is_found_by_a_check_of_its_page_and_of_no_other(offset, length):
    data = bytes(range(256)) * (length // 256 + 1)
    data = data[:length]
    sums = page_checksums(memoryview(data), offset)
    PageChecks(memoryview(data), offset, sums).check(0, length)
    for place in {0, length // 2, length - 1}:
        bad = bytearray(data)
        bad[place] ^= 1
        page = (offset + place) // PAGE_BYTES
        checks = PageChecks(memoryview(bad), offset, sums)
        start, end = (max(0, (page + n) * PAGE_BYTES - offset) for n in (0, 1))
        checks.check(0, start)
        checks.check(min(end, length), length)
        with pytest.raises(DamagedEntry) as caught:
            checks.check(place, place + 1)
        assert caught.value.offset == start
    with pytest.raises(DamagedEntry, match="another number"):
        PageChecks(memoryview(data + bytes(PAGE_BYTES)), offset, sums)
