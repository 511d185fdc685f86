"""The bytes of manifests: the reference's example, its scenarios 6 to 15 and 30, golden files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from queue_kit import ForeignQueue

from quiver.errors import CapacityError, DamagedEntry, InputError, TornEntry, VersionError
from quiver.ship.queue import format as layout
from quiver.ship.queue.format import Footer, Item, encode_footer, next_epoch
from quiver.ship.queue.manifest import NEW, Manifest, NewEntry, Span, decode_manifest
from quiver.ship.queue.tail import Batch, Mark

GOLDEN = Path(__file__).parents[2] / "golden" / "v1" / "queue"
STORE_ID = bytes(range(16))
TIME_MS = 1_700_000_000_000
REFERENCE = bytes.fromhex(
    "28000000 0700000000000000 0900 642f782e6261746368 01000000 00000000 0068e5cf8b010000"
    "01000000 6d 01000000 0800000000000000 0300000000000000 0100"
)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def entry(number: int) -> NewEntry:
    items = (Item(0, TIME_MS + number, b"m"), Item(2, TIME_MS + number + 1))
    span = Span(STORE_ID, 3, number, number)
    return NewEntry(f"d/{number}.batch", items, Batch(1000 + number, 0xDEAD0000 + number), (span,))


def at(next_sequence: int, epoch: int = 0) -> Manifest:
    return decode_manifest(encode_footer(Footer(next_sequence=next_sequence, epoch=epoch)))


def read(manifest: Manifest) -> list[tuple[int, str]]:
    found = [manifest.entry(raw) for raw in manifest.raw_entries()]
    return [(entry.sequence, entry.location) for entry in found]


def test_the_example_of_the_reference_is_read_and_written() -> None:
    assert len(REFERENCE) == 66
    assert golden("reference.manifest") == REFERENCE
    manifest = decode_manifest(REFERENCE)
    assert manifest.footer == (1, 8, 3, 1)
    (raw,) = manifest.raw_entries()
    found = manifest.entry(raw)
    assert found == (7, "d/x.batch", (Item(0, TIME_MS, b"m"),), None, (), False)
    body = layout.encode_body(7, "d/x.batch", found.items)
    assert struct.pack("<I", len(body)) + body == REFERENCE[: raw.end]
    assert encode_footer(manifest.footer) == REFERENCE[raw.end :]


def test_the_golden_files_are_what_they_were_written_from() -> None:
    mixed = decode_manifest(REFERENCE).appended([entry(1), entry(2)])
    assert mixed.data == golden("mixed.manifest")
    ours = at(42, 5).appended([entry(number) for number in range(4)])
    assert ours.data == golden("ours.manifest")
    cut = ours.cut_page("01ARYZ6S410000000000000000.page", entries=1, area_bytes=1 << 20)
    assert cut.data == golden(cut.ref.name)
    paged = ours.paged(cut)
    assert paged.data == golden("paged.manifest")
    assert paged.dequeued(43)[0].data == golden("floor.manifest")
    assert paged.dequeued(45)[0].data == golden("kept.manifest")


def test_the_golden_files_say_what_was_put_into_them() -> None:
    ours = decode_manifest(golden("ours.manifest"))
    assert ours.footer == (4, 46, 5, 1)
    assert read(ours) == [(42 + n, f"d/{n}.batch") for n in range(4)]
    assert ours.marks == {(STORE_ID, 3): 3}
    *older, newest = [ours.entry(raw) for raw in ours.raw_entries()]
    assert newest.marks == (Mark(STORE_ID, 3, 3),)
    assert [e.batch for e in (*older, newest)] == [entry(n).batch for n in range(4)]
    assert not any(e.marks for e in older)
    floor = decode_manifest(golden("floor.manifest"))
    assert (floor.footer, floor.table.floor, floor.count) == ((1, 46, 5, 2), 44, 2)
    (page,) = floor.table.pages
    assert page[1:4] == (42, 44, 3)
    assert page[6:] == (3003, TIME_MS)
    kept = decode_manifest(golden("kept.manifest"))
    assert (kept.footer, kept.count, kept.is_kept) == ((1, 46, 5, 1), 0, True)
    assert kept.marks == ours.marks


@pytest.mark.parametrize("name, count", [("reference", 1), ("mixed", 3), ("ours", 4), ("kept", 1)])
def test_the_other_side_reads_each_that_has_version_1(name, count) -> None:
    data = golden(f"{name}.manifest")
    theirs = ForeignQueue(data).entries()
    ours = decode_manifest(data)
    found = [ours.entry(raw) for raw in ours.raw_entries()]
    assert len(theirs) == count
    assert [(e.sequence, e.location, e.items) for e in theirs] == [
        (e.sequence, e.location, [tuple(item) for item in e.items]) for e in found
    ]


@pytest.mark.parametrize("name", ["paged", "floor"])
def test_the_other_side_refuses_a_manifest_with_pages(name) -> None:
    with pytest.raises(VersionError, match="version 2"):
        ForeignQueue(golden(f"{name}.manifest"))


def test_scenario_6_an_empty_manifest_is_22_bytes_of_nothing_and_version_1() -> None:
    assert NEW.data == bytes(20) + b"\1\0"
    assert (NEW.count, read(NEW), NEW.marks) == (0, [], {})


@pytest.mark.parametrize("data", [b"", bytes(21), b"\1\0"])
def test_scenario_7_what_is_too_short_is_refused(data) -> None:
    with pytest.raises(TornEntry, match="too short"):
        decode_manifest(data)


@pytest.mark.parametrize("version", [0, 3, 99])
def test_scenario_7_an_unknown_version_is_refused(version) -> None:
    with pytest.raises(VersionError, match=f"version {version}"):
        decode_manifest(bytes(20) + struct.pack("<H", version))


def test_scenario_8_an_append_keeps_the_bytes_and_numbers_that_are_there() -> None:
    manifest = decode_manifest(REFERENCE).appended([NewEntry("new")])
    assert manifest.data[:44] == REFERENCE[:44]
    assert manifest.footer == (2, 9, 3, 1)
    assert read(manifest) == [(7, "d/x.batch"), (8, "new")]


def test_scenario_9_append_write_read_append_again() -> None:
    manifest = NEW
    for number in range(5):
        manifest = decode_manifest(manifest.appended([entry(number)]).data)
    assert read(manifest) == [(n, f"d/{n}.batch") for n in range(5)]
    assert manifest.marks == {(STORE_ID, 3): 4}


def test_scenario_10_an_empty_manifest_gives_the_number_that_it_says() -> None:
    assert read(at(42).appended([NewEntry("x")])) == [(42, "x")]


def test_scenario_11_an_empty_location_a_big_payload_and_a_negative_time_come_back() -> None:
    items = (Item(0, -5, bytes(300_000)), Item((1 << 32) - 1, -(1 << 63)), Item(1, (1 << 63) - 1))
    manifest = decode_manifest(NEW.appended([NewEntry("", items)]).data)
    (raw,) = manifest.raw_entries()
    assert manifest.entry(raw)[1:3] == ("", items)


def test_scenario_12_a_location_of_65536_bytes_is_refused() -> None:
    longest = "\u00e9" * 32_767 + "x"
    assert read(NEW.appended([NewEntry(longest)])) == [(0, longest)]
    with pytest.raises(InputError, match="65,536 bytes"):
        NEW.appended([NewEntry(longest + "x")])


def test_scenario_13_dequeue_some_all_or_none_keeps_the_next_number() -> None:
    manifest = at(10, 7).appended([NewEntry(str(n)) for n in range(3)])
    same, removed = manifest.dequeued(9)
    assert (same is manifest, removed) == (True, 0)
    some, removed = manifest.dequeued(10)
    assert (read(some), removed, some.footer) == ([(11, "1"), (12, "2")], 1, (2, 13, 7, 1))
    empty, removed = some.dequeued(12)
    assert (empty.data, removed) == (encode_footer(Footer(0, 13, 7)), 2)
    assert read(empty.appended([NewEntry("new")])) == [(13, "new")]


def test_scenario_14_bytes_of_no_entry_are_told_behind_the_good_one() -> None:
    manifest = decode_manifest(REFERENCE[:-22] + b"junk" + REFERENCE[-22:])
    raws = manifest.raw_entries()
    assert manifest.entry(next(raws)).location == "d/x.batch"
    with pytest.raises(DamagedEntry, match="belong to no entry") as found:
        next(raws)
    assert found.value.offset == 44


def cut(size: int, **changes: int) -> Manifest:
    """Give a manifest whose one entry has so many bytes, its size among them."""
    data = bytearray(REFERENCE[:size])
    if size >= 4:
        data[:4] = struct.pack("<I", changes.get("said", size - 4))
    return decode_manifest(bytes(data) + REFERENCE[-22:])


@pytest.mark.parametrize(
    "manifest, message",
    [
        (cut(0), "no room for the size"),
        (cut(3), "no room for the size"),
        (cut(44, said=41), "entry 0 is longer than the manifest"),
        (cut(4), "entry 0 is too short for its number and location"),
        (cut(17), "entry 0 is too short for its number and location"),
        (cut(18), "an entry is too short for its number and location"),
        (cut(26), "an entry is too short for its number and location"),
        (cut(27), "the index of item 0 is cut"),
        (cut(30), "the index of item 0 is cut"),
        (cut(31), "the time of item 0 is cut"),
        (cut(38), "the time of item 0 is cut"),
        (cut(39), "the payload length of item 0 is cut"),
        (cut(42), "the payload length of item 0 is cut"),
        (cut(43), "the payload of item 0 is cut"),
    ],
)
def test_scenario_15_each_field_that_is_cut_has_an_error_of_its_own(manifest, message) -> None:
    with pytest.raises((TornEntry, DamagedEntry), match=message) as found:
        read(manifest)
    assert 0 <= found.value.offset <= 44


def test_a_location_that_is_no_text_is_damage() -> None:
    with pytest.raises(DamagedEntry, match="no UTF-8"):
        read(decode_manifest(REFERENCE[:14] + b"\xff" + REFERENCE[15:]))


def test_scenario_30_epochs_begin_again_and_none_is_all_ones() -> None:
    assert [next_epoch(n) for n in (0, (1 << 64) - 3)] == [1, (1 << 64) - 2]
    assert next_epoch((1 << 64) - 2) == next_epoch((1 << 64) - 1) == 0
    old = decode_manifest(golden("paged.manifest"))
    new = decode_manifest(old.with_epoch((1 << 64) - 2).data)
    assert new.footer == old.footer._replace(epoch=(1 << 64) - 2)
    assert (new.area, new.table) == (old.area, old.table)


def test_numbers_that_do_not_rise_or_are_not_given_yet_are_damage() -> None:
    one = REFERENCE[:44]
    for footer in (Footer(2, 8), Footer(1, 7)):
        with pytest.raises(DamagedEntry, match="not between"):
            read(decode_manifest(one * footer.entry_count + encode_footer(footer)))


@pytest.mark.parametrize(
    "bad",
    [
        (Item(-1, 0),),
        (Item(1 << 32, 0),),
        (Item(0, 1 << 63),),
        (Item(0, -(1 << 63) - 1),),
    ],
)
def test_an_item_that_has_no_place_is_refused(bad) -> None:
    with pytest.raises(InputError):
        NEW.appended([NewEntry("x", bad)])


def test_what_is_too_large_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(layout, "PAYLOAD_BYTES_MAX", 3)
    with pytest.raises(InputError, match="a payload has 4 bytes"):
        NEW.appended([NewEntry("x", (Item(0, 0, b"1234"),))])
    monkeypatch.setattr(layout, "COUNT_MAX", 1)
    with pytest.raises(InputError, match="2 items"):
        NEW.appended([NewEntry("x", (Item(0, 0), Item(1, 0)))])


def test_numbers_end_with_64_bits() -> None:
    last = at((1 << 64) - 2)
    assert read(last.appended([NewEntry("x")])) == [((1 << 64) - 2, "x")]
    with pytest.raises(CapacityError, match="no numbers left"):
        last.appended([NewEntry("x"), NewEntry("y")])
