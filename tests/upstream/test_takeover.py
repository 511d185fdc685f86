"""What the Rust Quiver left becomes a store: all of it, in its place, and nothing twice."""

from __future__ import annotations

import pytest
import upstream_kit as kit
from takeover_kit import BUNDLES, TABLE, entry, findings, opened, stocks_of, take, taken, write_core

import quiver
from quiver.bundle import fingerprint
from quiver.disk import FolderDisk, LocalDisk
from quiver.engine import takeover
from quiver.errors import VersionError
from quiver.segment import SegmentReader
from quiver.testing import MemoryDisk


def test_everything_is_taken_in_its_order_and_check_finds_nothing(source) -> None:
    parent = MemoryDisk()
    before = source.tree.digest()
    take(source, parent)
    assert source.tree.digest() == before
    assert findings(parent) == []
    assert [entry.name for entry in parent.list_dir("")] == ["store"]
    store = opened(parent)
    assert not store.recovery.damage
    assert store.slots == TABLE
    assert store.info().next_wal_seq == 6
    assert store.info().next_segment_seq == 43  # A subscriber has heard of segment 41.
    assert taken(store, "new") == BUNDLES


def test_a_subscriber_gets_what_was_open_there_and_nothing_else(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    store = opened(parent)
    assert list(store.info().subscribers) == ["spark", "upstream-"]
    assert taken(store, "spark") == [BUNDLES[i] for i in (1, 2, 4, 5)]
    assert taken(store, "upstream-") == [BUNDLES[i] for i in (2, 3, 4, 5)]


def test_segments_keep_their_numbers_and_bundles_their_places(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    disk = FolderDisk(parent, "store/core_0/segments")
    assert [entry.name for entry in disk.list_dir("")] == [
        "0000000000000003.qseg",
        "0000000000000008.qseg",
        "0000000000000042.qseg",
    ]
    for name in ("0000000000000003.qseg", "0000000000000008.qseg"):
        ours = SegmentReader.open(disk, name)
        theirs = SegmentReader.open(source, f"segments/{name}")
        assert ours.bundle_count == theirs.bundle_count
        for index in range(ours.bundle_count):
            mine, other = ours.bundle(index), theirs.bundle(index)
            assert mine.keys() == other.keys()
            for slot, batch in mine.items():
                assert batch.equals(other[slot])
                assert batch.schema.equals(other[slot].schema, check_metadata=True)


def test_segments_are_written_as_the_config_says(source) -> None:
    parent = MemoryDisk()
    take(source, parent, segment={"compression": "zstd"})
    disk = FolderDisk(parent, "store/core_0/segments")
    for file in disk.list_dir(""):
        with SegmentReader.open(disk, file.name) as reader:
            assert reader.compression == "zstd"
            reader.verify()
    assert taken(opened(parent), "new") == BUNDLES


def test_times_come_from_the_log_and_else_from_the_file(tmp_path) -> None:
    disk = LocalDisk(tmp_path / "source", create=True)
    write_core(kit.Folder(disk))
    written = (tmp_path / "source/segments/0000000000000003.qseg").stat().st_mtime_ns
    parent = MemoryDisk()
    take(disk, parent)
    ours = FolderDisk(parent, "store/core_0/segments")
    first = SegmentReader.open(ours, "0000000000000003.qseg")
    last = SegmentReader.open(ours, "0000000000000042.qseg")
    assert [first.bundle_entry(i).ingestion_ns for i in (0, 1)] == [written, written]
    assert [last.bundle_entry(i).ingestion_ns for i in (0, 1)] == [4, 5]


def test_several_cores_stay_several_cores(disk) -> None:
    for number in (0, 4):
        write_core(kit.Folder(disk, f"core_{number}"), f"core {number}: ")
    parent = MemoryDisk()
    take(disk, parent)
    assert findings(parent) == []
    for number in (0, 4):
        got = taken(opened(parent, number), "spark")
        assert len(got) == 4
        assert all(text.startswith(f"core {number}: ") for text in got)


def test_a_large_log_becomes_several_segments(disk, folder) -> None:
    folder.add_log(*(entry(str(number)) for number in range(20)))
    folder.set_cursor(0)
    folder.set_progress("spark")
    parent = MemoryDisk()
    take(disk, parent, segment={"target_size": 4000})
    assert len(parent.list_dir("store/core_0/segments")) > 3
    assert findings(parent) == []
    assert taken(opened(parent), "spark") == [f"{n} {n} attrs" for n in range(20)]


def test_many_outcomes_are_written_in_pieces(source, monkeypatch) -> None:
    monkeypatch.setattr(takeover, "_RECORDS", 2)
    parent = MemoryDisk()
    take(source, parent)
    assert findings(parent) == []
    assert taken(opened(parent), "spark") == [BUNDLES[i] for i in (1, 2, 4, 5)]


def test_a_segment_without_bundles_is_none_of_ours(disk, folder) -> None:
    folder.add_segment(0)
    folder.add_segment(1, {30: kit.logs("a")})
    folder.set_progress("spark", (0, 0, ()))
    parent = MemoryDisk()
    take(disk, parent)
    assert findings(parent) == []
    assert taken(opened(parent), "spark") == ["a"]


def test_what_is_in_the_log_comes_behind_every_segment_damaged_ones_too(disk, folder) -> None:
    folder.add_segment(3, {30: kit.logs("a")})
    folder.save("segments/0000000000000005.qseg", b"torn")
    folder.add_log(entry("b"))
    folder.set_cursor(0)
    parent = MemoryDisk()
    take(disk, parent)
    segments = FolderDisk(parent, "store/core_0/segments")
    assert [entry.name for entry in segments.list_dir("")] == [
        "0000000000000003.qseg",
        "0000000000000006.qseg",
    ]
    for stored in segments.list_dir(""):
        reader = SegmentReader.open(segments, stored.name)
        for stream in reader.streams:
            schema = reader.stream_schema(stream.stream_id)
            assert stream.fingerprint == fingerprint(schema)


def test_a_folder_with_a_log_alone_or_subscribers_alone_is_taken(disk, folder) -> None:
    folder.set_progress("spark", (7, 1, {0}))
    parent = MemoryDisk()
    take(disk, parent)
    assert findings(parent) == []
    store = opened(parent)
    assert taken(store, "spark") == []
    assert store.info().next_segment_seq == 8
    assert store.append({"logs": kit.logs("first")}) == 0


def test_appends_go_on_where_it_ended(source) -> None:
    parent = MemoryDisk()
    take(source, parent)
    store = opened(parent)
    taken(store, "spark")
    assert store.append({"logs": kit.logs("more")}) == 6
    assert store.finalize().segment_seq == 43
    assert taken(store, "spark") == ["more"]
    store.close()
    assert findings(parent) == []


# damage ----------------------------------------------------------------------------------------


def flip(disk: MemoryDisk, path: str, offset: int) -> None:
    data = bytearray(disk.map(path))
    data[offset] ^= 1
    kit.save(disk, path, bytes(data))


def test_a_damaged_segment_is_kept_and_the_rest_goes_on(source) -> None:
    flip(source, "segments/0000000000000003.qseg", 100)
    (stock,) = stocks_of(source)
    (error,) = stock.damage
    assert error.path == "memory:/segments/0000000000000003.qseg"
    parent = MemoryDisk()
    take(source, parent)
    kept = "store/core_0/quarantine/0000000000000003.qseg"
    assert parent.map(kept) == source.map("segments/0000000000000003.qseg")
    assert b"checksum is wrong" in bytes(parent.map(f"{kept}.json"))
    (note,) = findings(parent)
    assert note.startswith(f"note memory:/{kept}")
    store = opened(parent)
    assert taken(store, "spark") == [BUNDLES[i] for i in (2, 4, 5)]
    assert store.info().next_segment_seq == 43


def test_damage_in_the_log_costs_one_bundle_and_is_kept(source) -> None:
    data = bytes(source.map("wal/quiver.wal"))
    size = len(entry("4"))
    flip(source, "wal/quiver.wal", 38 + size + 70)
    parent = MemoryDisk()
    take(source, parent)
    assert taken(opened(parent), "spark") == [BUNDLES[i] for i in (1, 2, 5)]
    kept = bytes(parent.map(f"store/core_0/quarantine/quiver.wal.{38 + size}"))
    assert len(kept) == size
    assert kept != data[38 + size :][:size]


def test_a_payload_that_is_no_arrow_data_costs_its_bundle(disk, folder) -> None:
    bad = kit.wal_entry(1, [(30, b"no Arrow")])
    folder.add_log(entry("0"), bad, entry("2"))
    folder.set_cursor(0)
    (stock,) = stocks_of(disk)
    assert (stock.logged_bundles, stock.logged_rows) == (2, 4)
    assert [(e.path, e.offset) for e in stock.damage] == [
        ("memory:/wal/quiver.wal", 38 + len(entry("0")))
    ]
    parent = MemoryDisk()
    take(disk, parent)
    kept = f"store/core_0/quarantine/quiver.wal.{38 + len(entry('0'))}"
    assert bytes(parent.map(kept)) == bad
    assert taken(opened(parent), "new") == ["0 0 attrs", "2 2 attrs"]


def test_a_damaged_progress_file_leaves_all_open(source) -> None:
    flip(source, "quiver.sub.spark", 40)
    parent = MemoryDisk()
    take(source, parent)
    assert taken(opened(parent), "spark") == BUNDLES
    assert parent.stat("store/core_0/quarantine/quiver.sub.spark") is not None


def test_progress_of_another_segment_of_that_number_is_not_believed(source, folder) -> None:
    """There numbers begin at 0 again once all segments are gone, and old progress stays."""
    folder.set_progress("spark", (3, 3, {0, 1, 2}), (8, 2, {0}))
    (stock,) = stocks_of(source)
    assert [(e.path, e.expected, e.found) for e in stock.damage] == [
        ("memory:/quiver.sub.spark", "2 bundles", 3)
    ]
    parent = MemoryDisk()
    take(source, parent)
    assert taken(opened(parent), "spark") == [BUNDLES[i] for i in (0, 1, 3, 4, 5)]


def test_a_segment_of_a_newer_format_is_refused_with_its_path(disk, folder) -> None:
    path = folder.add_segment(0, {30: kit.logs("a")})
    data = bytearray(disk.map(path))
    data[-50] = 2
    folder.save(path, kit.sealed(bytes(data[:-4])))
    with pytest.raises(VersionError, match=r"memory:/segments/0000000000000000\.qseg: segment"):
        stocks_of(disk)


def test_an_empty_folder_becomes_the_store(tmp_path, source) -> None:
    (tmp_path / "store").mkdir()
    disk = LocalDisk(tmp_path)
    take(source, disk)
    with quiver.open(tmp_path / "store", worker=False) as store:
        assert taken(store, "spark") == [BUNDLES[i] for i in (1, 2, 4, 5)]
    assert quiver.scan(tmp_path / "store", slot="logs").count_rows() > 0
