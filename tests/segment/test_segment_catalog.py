from __future__ import annotations

import struct
import zlib

import pytest

from quiver.disk import LocalDisk, Stat
from quiver.disk.local_file import LocalFile
from quiver.errors import DamagedEntry, InputError, MissingError, TornEntry, VersionError
from quiver.segment import Catalog, SegmentInfo, read_info


def info(seq: int, *, last: int | None = None, size: int = 10) -> SegmentInfo:
    return SegmentInfo(seq, f"{seq}", size, size, 1, 1, wal_seq_last=last)


def test_segments_come_in_order_of_their_numbers():
    catalog = Catalog()
    for seq in (5, 1, 9, 3):
        catalog.add(info(seq))
    assert [each.segment_seq for each in catalog] == [1, 3, 5, 9]
    assert (len(catalog), catalog.newest_seq, catalog.segment_bytes) == (4, 9, 40)
    assert 5 in catalog
    assert 6 not in catalog


def test_a_removed_segment_is_gone_and_its_bytes_with_it():
    catalog = Catalog()
    catalog.add(info(1, size=3))
    catalog.add(info(2, size=4))
    assert catalog.remove(1) == info(1, size=3)
    assert ([i.segment_seq for i in catalog], catalog.segment_bytes) == ([2], 4)
    for act in (catalog.get, catalog.remove):
        with pytest.raises(InputError, match="no segment 1"):
            act(1)


def test_a_number_cannot_be_taken_twice():
    catalog = Catalog()
    catalog.add(info(1))
    with pytest.raises(InputError, match="already"):
        catalog.add(info(1))
    assert catalog.segment_bytes == 10


def test_an_empty_catalogue_covers_nothing():
    catalog = Catalog()
    assert (catalog.newest_seq, catalog.covered_wal_seq, len(catalog)) == (None, None, 0)


def test_the_covered_sequence_is_the_highest_of_all_segments_that_say_one():
    catalog = Catalog()
    for each in (info(1, last=50), info(2), info(3, last=40)):
        catalog.add(each)
    assert catalog.covered_wal_seq == 50


def test_a_folder_loads_its_segments_and_lists_the_damaged_ones(shelf, numbers):
    good = [shelf.write({0: numbers(1)}, seq=seq) for seq in (3, 4)]
    shelf.save(b"torn", "0000000000000005.qseg")
    shelf.save(bytes(100), "0000000000000006.qseg")
    shelf.save(b"", "0000000000000007.qseg.tmp")
    shelf.save(b"", "notes.txt")
    shelf.disk.make_dir("0000000000000008.qseg")
    catalog, damage = Catalog.load(shelf.disk, "")
    assert list(catalog) == good
    assert [(path, type(error)) for path, error in damage] == [
        ("0000000000000005.qseg", TornEntry),
        ("0000000000000006.qseg", DamagedEntry),
    ]
    assert damage[1][1].path == shelf.disk.locate("0000000000000006.qseg")


def test_a_segment_that_is_deleted_while_the_folder_is_read_is_no_error(shelf, numbers):
    kept = shelf.write({0: numbers(1)}, seq=1)
    gone = shelf.write({0: numbers(1)}, seq=2)

    class Busy(LocalDisk):
        def open(self, path: str, *, writable: bool = False) -> LocalFile:
            if path == gone.path:
                raise MissingError("deleted", path=path)
            return super().open(path, writable=writable)

    catalog, damage = Catalog.load(Busy(shelf.disk.root), "")
    assert (list(catalog), damage) == ([kept], [])


def test_a_segment_under_another_ones_name_is_damage(shelf, numbers):
    data = shelf.load(shelf.write({0: numbers(1)}, seq=1))
    path = shelf.save(data, "0000000000000002.qseg")
    with pytest.raises(DamagedEntry, match="another one's name") as caught:
        read_info(shelf.disk, path)
    assert (caught.value.expected, caught.value.found) == (1, 2)


def test_a_copy_under_a_name_of_no_segment_keeps_its_number(shelf, numbers):
    data = shelf.load(shelf.write({0: numbers(1)}, seq=1))
    assert read_info(shelf.disk, shelf.save(data, "copy")).segment_seq == 1


def test_a_segment_of_a_newer_format_stops_the_loading(shelf):
    data = b"\x02" + bytes(33) + b"\x22\0\0\0QUIVER\0S"
    shelf.save(data + struct.pack("<I", zlib.crc32(data)), "0000000000000001.qseg")
    with pytest.raises(VersionError, match="version 2"):
        Catalog.load(shelf.disk, "")


def test_no_segment_at_a_path_is_missing(shelf):
    with pytest.raises(MissingError):
        read_info(shelf.disk, "0000000000000001.qseg")


def test_info_takes_one_small_read_whatever_the_size(shelf, numbers):
    reads = []

    class Counting(LocalDisk):
        def open(self, path: str, *, writable: bool = False) -> LocalFile:
            file = super().open(path, writable=writable)
            inner = file.read

            class Spy:
                path = file.path
                size = file.size
                close = file.close

                def read(self, offset: int, length: int) -> bytes:
                    reads.append(length)
                    return inner(offset, length)

            return Spy()

        def map(self, path: str) -> memoryview:
            raise AssertionError(path)

    written = shelf.write({0: numbers(*range(100_000))})
    assert read_info(Counting(shelf.disk.root), written.path) == written
    assert reads == [512]


class Busy(LocalDisk):
    """Knows which files are open, and how many there were at most at a time."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.opened: list[LocalFile] = []
        self.most = 0

    def open(self, path: str, *, writable: bool = False) -> LocalFile:
        file = super().open(path, writable=writable)
        self.opened = [*self.still_open(), file]
        self.most = max(self.most, len(self.opened))
        return file

    def still_open(self) -> list[LocalFile]:
        return [file for file in self.opened if file._descriptor >= 0]


def test_a_folder_of_many_segments_is_read_with_few_of_them_open(shelf, numbers):
    written = [shelf.write({0: numbers(seq)}, seq=seq) for seq in range(70)]
    shelf.save(b"torn", "0000000000000070.qseg")
    disk = Busy(shelf.disk.root)
    catalog, damage = Catalog.load(disk, "")
    assert list(catalog) == written
    assert [path for path, _ in damage] == ["0000000000000070.qseg"]
    assert (disk.most, disk.still_open()) == (64, [])


def test_no_segment_stays_open_when_the_loading_is_stopped(shelf, numbers):
    for seq in (1, 3):
        shelf.write({0: numbers(1)}, seq=seq)
    data = b"\x02" + bytes(33) + b"\x22\0\0\0QUIVER\0S"
    shelf.save(data + struct.pack("<I", zlib.crc32(data)), "0000000000000002.qseg")
    disk = Busy(shelf.disk.root)
    with pytest.raises(VersionError, match="version 2"):
        Catalog.load(disk, "")
    assert (disk.most, disk.still_open()) == (4, [])  # Three, and once more to be mapped.


def test_a_listing_that_is_there_is_not_made_again(shelf, numbers):
    written = shelf.write({0: numbers(1)}, seq=1)

    class Unlisted(LocalDisk):
        def list_dir(self, path: str) -> list[Stat]:
            raise AssertionError(path)

    listing = shelf.disk.list_dir("")
    catalog, _ = Catalog.load(Unlisted(shelf.disk.root), "", listing=listing)
    assert list(catalog) == [written]
