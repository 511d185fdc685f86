"""Each flipped bit and each cut is noticed, but for the few that nothing covers."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from quiver.errors import CapacityError, DamagedEntry, DamageError, TornEntry, VersionError
from quiver.ship.queue import Batch, NewEntry, Span, tail
from quiver.ship.queue.manifest import NEW, Manifest, decode_manifest
from quiver.ship.queue.pages import PageCache
from quiver.ship.queue.table import PAGE_REF, Table, decode_page, encode_table

GOLDEN = Path(__file__).parents[2] / "golden" / "v1" / "queue"
PAGE_NAME = "01ARYZ6S410000000000000000.page"
STORE_ID = bytes(range(16))
NEXT, EPOCH = range(-18, -10), range(-10, -2)
"""Bytes of a footer, from the end of a manifest."""


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def read_all(data: bytes) -> object:
    manifest = decode_manifest(data)
    entries = [manifest.entry(raw) for raw in manifest.raw_entries()]
    return entries, manifest.marks, manifest.count, manifest.table


def flipped(data: bytes, bit: int) -> bytes:
    mutant = bytearray(data)
    mutant[bit // 8] ^= 1 << bit % 8
    return bytes(mutant)


def passed(data: bytes, reader) -> set[int]:
    """Give the bytes, from the end, of which some bit can be flipped and nobody notices."""
    found = set()
    for bit in range(8 * len(data)):
        try:
            reader(flipped(data, bit))
        except (DamageError, VersionError):
            continue
        found.add(bit // 8 - len(data))
    return found


@pytest.mark.parametrize("name", ["ours", "kept"])
def test_of_entries_of_ours_each_flipped_bit_is_noticed(name) -> None:
    assert passed(golden(f"{name}.manifest"), read_all) == {*NEXT, *EPOCH}


@pytest.mark.parametrize("name", ["paged", "floor"])
def test_with_pages_each_flipped_bit_of_a_manifest_is_noticed(name) -> None:
    assert passed(golden(f"{name}.manifest"), read_all) == set()


def test_each_flipped_bit_of_a_page_is_noticed() -> None:
    def read(data: bytes) -> None:
        decode_page(memoryview(data))

    assert passed(golden(PAGE_NAME), read) == set()


def test_a_number_that_jumped_is_the_only_flip_that_numbers_take() -> None:
    data = golden("ours.manifest")
    for bit in range(8 * (len(data) - 18), 8 * (len(data) - 10)):
        mutant = flipped(data, bit)
        number = struct.unpack_from("<Q", mutant, len(data) - 18)[0]
        if number < 46:
            with pytest.raises(DamageError):
                read_all(mutant)
        else:
            assert read_all(mutant) == read_all(data)


@pytest.mark.parametrize("name", ["ours", "kept", "paged", "floor", "mixed", "reference"])
def test_each_cut_at_the_front_is_noticed(name) -> None:
    data = golden(f"{name}.manifest")
    for size in range(1, len(data)):
        with pytest.raises(DamageError):
            read_all(data[size:])


def test_of_others_entries_only_what_leads_astray_is_noticed() -> None:
    data = golden("reference.manifest")
    unnoticed = passed(data, read_all)
    assert {*EPOCH} <= unnoticed
    assert unnoticed.isdisjoint(range(-66, -62))  # The size of the entry.
    assert unnoticed.isdisjoint(range(-22, -18))  # The count of entries.


def test_marks_are_found_or_damage_is_told_when_somebody_else_wrote_last() -> None:
    ours = decode_manifest(golden("ours.manifest"))
    theirs = ours.data[: len(ours.area)] + golden("reference.manifest")[:44]
    theirs = theirs.replace(struct.pack("<Q", 7), struct.pack("<Q", 46))
    theirs += struct.pack("<IQQH", 5, 47, 5, 1)
    assert decode_manifest(theirs).marks == ours.marks
    assert cut(decode_manifest(theirs), 0) is None  # The one with the marks would go along.
    page = cut(decode_manifest(theirs), 2)
    assert page.ref.entry_count == 3
    start = len(ours.area) - 136  # The newest of ours, which has them.
    for bit in range(8 * start, 8 * len(ours.area)):
        with pytest.raises(DamageError):
            _ = decode_manifest(flipped(theirs, bit)).marks


@pytest.mark.parametrize("count", range(1, 40))
def test_no_payload_length_can_grow_over_the_tail(count) -> None:
    """With some counts of marks the tail is as long as the worth of one bit."""
    spans = [Span(STORE_ID, core, 0, 0) for core in range(count)]
    manifest = NEW.appended([NewEntry("d", (), Batch(1, 2), spans)])
    for bit in range(8 * len(manifest.area)):
        with pytest.raises(DamageError):
            read_all(flipped(manifest.data, bit))


def test_an_append_checks_the_newest_entry_and_no_other() -> None:
    data = golden("ours.manifest")
    manifest = decode_manifest(flipped(data, 8 * 60))
    assert manifest.appended([NewEntry("x")]).footer.next_sequence == 47
    with pytest.raises(DamageError):
        decode_manifest(flipped(data, 8 * (len(data) - 60))).appended([NewEntry("x")])


def test_a_payload_of_somebody_else_that_ends_like_a_tail_is_none() -> None:
    data = bytearray(golden("reference.manifest"))
    data[43:44] = b"QVT1"
    data[39:43] = struct.pack("<I", 4)
    data[:4] = struct.pack("<I", 43)
    (entry,), marks, *_ = read_all(bytes(data))
    assert (entry.items[0].payload, entry.batch, marks) == (b"QVT1", None, {})


def with_fields(*fields: tuple[int, bytes]) -> Manifest:
    """Give a manifest whose one entry has these fields in its tail."""
    body = NEW.appended([NewEntry("d")]).area[4:-20]
    data = tail.with_tail(bytes(body), tail.Tail(unknown=fields))
    return decode_manifest(data + struct.pack("<IQQH", 1, 1, 0, 1))


@pytest.mark.parametrize(
    "fields",
    [
        [(1, bytes(11))],
        [(2, bytes(25))],
        [(2, bytes(52))],
        [(3, b"x")],
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_damage(fields) -> None:
    with pytest.raises(DamagedEntry, match="in a tail is wrong"):
        _ = with_fields(*fields).marks


def test_fields_that_are_cut_are_damage() -> None:
    body = bytes(NEW.appended([NewEntry("d")]).area[4:-20])
    for junk in (b"\x01", struct.pack("<HI", 9, 1)):
        size = len(body) + 20 + len(junk)
        head = struct.pack("<I", size) + body + b"QVT1" + junk
        head += struct.pack("<II", size + 4, 20 + len(junk))
        data = head + struct.pack("<I4s", crc32c(head), b"QVT1")
        with pytest.raises(DamagedEntry, match="is cut"):
            read_all(data + struct.pack("<IQQH", 1, 1, 0, 1))


@pytest.mark.parametrize("sizes", [(1000, 20), (46, 19), (46, 47), (46, 22)])
def test_a_tail_with_wrong_sizes_is_damage_though_its_checksum_is_right(sizes) -> None:
    body = bytes(NEW.appended([NewEntry("d")]).area[4:-20])
    head = struct.pack("<I", len(body) + 20) + body + b"QVT1" + struct.pack("<II", *sizes)
    data = head + struct.pack("<I4s", crc32c(head), b"QVT1")
    with pytest.raises(DamagedEntry, match="wrong sizes"):
        read_all(data + struct.pack("<IQQH", 1, 1, 0, 1))


def test_fields_that_are_unknown_are_passed_over_and_kept() -> None:
    manifest = with_fields((700, b"later"), (2, struct.pack("<16sHQ", STORE_ID, 1, 5)))
    assert manifest.marks == {(STORE_ID, 1): 5}
    after = manifest.appended([NewEntry("x")])
    assert b"later" in bytes(after.area)
    assert after.marks == manifest.marks
    assert not after.entry(next(after.raw_entries())).marks


def test_too_many_marks_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(tail, "MARKS_MAX", 2)
    with pytest.raises(CapacityError, match="3 cores of stores"):
        NEW.appended([NewEntry("x", (), None, [Span(STORE_ID, n, 0, 0) for n in range(3)])])


def table_of(*pages: tuple) -> bytes:
    ref = decode_manifest(golden("paged.manifest")).table.pages[0]
    return encode_table(Table(0, tuple(ref._replace(first=a, last=b) for a, b in pages)))


def sealed(table: bytes) -> bytes:
    """Give a manifest of no entries in line behind such a table, its checksum right."""
    footer = struct.pack("<IQQH", 0, 100, 0, 2)
    return table + struct.pack("<I", crc32c(footer, crc32c(table))) + footer


@pytest.mark.parametrize(
    "table",
    [
        b"",
        b"QVPX" + table_of((1, 2))[4:],
        table_of((1, 2)) + b"x",
        table_of((1, 2))[:-1],
        table_of((3, 2)),
        table_of((1, 2), (2, 3)),
        table_of((1, 2))[:16] + struct.pack("<I", 2) + table_of((1, 2))[20:],
        table_of((1, 2))[:-1] + b"\xff",
        table_of((1, 2))[:64] + b"\xff\xff" + table_of((1, 2))[66:],
        table_of((1, 2), (3, 4))[:64] + b"\x30\0" + table_of((1, 2), (3, 4))[66:],
        table_of((1, 2), (3, 4))[:16] + struct.pack("<I", 1) + table_of((1, 2), (3, 4))[20:],
    ],
)
def test_a_table_that_is_wrong_is_damage_though_its_checksum_is_right(table) -> None:
    assert PAGE_REF.size == 46
    with pytest.raises(DamageError):
        read_all(sealed(table))


def test_a_manifest_with_pages_that_is_too_short_is_torn() -> None:
    with pytest.raises(DamageError, match="too short"):
        decode_manifest(struct.pack("<IQQH", 0, 100, 0, 2))


def test_a_page_that_is_another_one_or_newer_is_refused() -> None:
    ref = decode_manifest(golden("paged.manifest")).table.pages[0]
    data = golden(PAGE_NAME)
    cache = PageCache(lambda _: data, place="memory:")
    assert [e.sequence for e in cache.entries(ref)] == [42, 43, 44]
    for wrong in ({"crc32c": 1}, {"object_bytes": 1}, {"entry_count": 1}):
        with pytest.raises(DamagedEntry, match=f"in memory:/{PAGE_NAME} at byte 0"):
            PageCache(lambda _: data, place="memory:").entries(ref._replace(**wrong))
    with pytest.raises(TornEntry, match="too short"):
        decode_page(memoryview(b"short"))
    newer = data[:-10] + struct.pack("<H", 2)
    newer += struct.pack("<I4s", crc32c(newer), b"QVPG")
    with pytest.raises(VersionError, match="a page has format version 2"):
        decode_page(memoryview(newer))


def cut(manifest, keep: int):
    return manifest.cut_page("p", entries=keep, area_bytes=1 << 20)


def test_a_page_is_made_of_entries_of_ours_without_holes_alone() -> None:
    ours = decode_manifest(golden("ours.manifest"))
    assert cut(ours, 4) is None
    assert cut(ours, 0).ref.entry_count == 3  # The newest stays in any case.
    assert cut(decode_manifest(golden("mixed.manifest")), 1) is None
    first, second, *_ = ours.raw_entries()
    area = bytes(ours.area[: first.end]) + bytes(ours.area[second.end :])
    gap = decode_manifest(area + struct.pack("<IQQH", 3, 46, 0, 1))
    assert cut(gap, 1) is None
    page = cut(ours, 2)
    assert page.ref.entry_count == 2
    assert ours.dequeued(42)[0].paged(page) is None
    assert ours.appended([NewEntry("x")]).paged(page).count == 5


def test_a_page_leaves_no_more_bytes_in_line_than_it_is_told() -> None:
    ours = decode_manifest(golden("ours.manifest"))
    starts = [raw.start for raw in ours.raw_entries()]
    for entry_count, size in ((2, len(ours.area) - starts[2]), (3, 0)):
        page = ours.cut_page("p", entries=100, area_bytes=size)
        assert page.ref.entry_count == entry_count
    assert ours.cut_page("p", entries=100, area_bytes=len(ours.area)) is None


def test_values_of_a_manifest_compare_by_their_bytes() -> None:
    one, two = decode_manifest(golden("ours.manifest")), decode_manifest(golden("ours.manifest"))
    assert one == two
    assert one != replace(two, footer=two.footer._replace(epoch=9))
