"""The bytes of the Rust Quiver: what its tables say is read, and nothing else is believed."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import upstream_kit as kit

from quiver.errors import DamagedEntry, DamageError, TornEntry, VersionError
from quiver.ipc import decode_stream
from quiver.upstream import format as upstream

PAGE = Path(upstream.__file__).with_name("FORMAT.md").read_text()
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}
BATCH = pa.record_batch({"n": [1, None]})
ENTRY = kit.wal_entry(7, [(31, BATCH), (30, BATCH)], at=5)
PROGRESS = kit.progress([(3, 70, {0, 1, 5, 64, 69}), (4, 0, ()), (9, 2, ())])


def frame(data: bytes, offset: int = 0) -> upstream.Frame:
    return upstream.frame_at(memoryview(data), offset)


def test_the_tables_of_the_page_are_the_structs_of_the_code() -> None:
    for name in ("HEADER", "HEAD", "BLOCK", "CURSOR", "PROGRESS", "PROGRESS_ENTRY"):
        table = re.search(rf"\(`{name}`\)\n\n(.*?)\n\n", PAGE, re.DOTALL)
        assert table is not None, name
        layout, end = "<", 0
        for row in table[1].splitlines()[2:]:
            offset, size, kind = (cell.strip() for cell in row.split("|")[1:4])
            assert int(offset) == end, f"{name} has a gap at {end}"
            end += int(size)
            layout += CODES.get(kind, f"{size}s")
        assert layout == getattr(upstream, name).format
        assert struct.calcsize(layout) == end


# log -------------------------------------------------------------------------------------------


def test_a_header_says_how_long_it_is_and_where_its_file_begins() -> None:
    assert upstream.decode_header(kit.wal_header(900)) == (38, kit.LAYOUT, 900)
    assert upstream.decode_header(kit.wal_header(more=b"later")) == (43, kit.LAYOUT, 0)


@pytest.mark.parametrize(
    ("data", "kind", "offset"),
    [
        (kit.wal_header()[:37], TornEntry, 0),
        (b"quiver" + kit.wal_header()[6:], DamagedEntry, 0),
        (kit.wal_header()[:12] + b"\x25\0" + kit.wal_header()[14:], DamagedEntry, 12),
        (b"QUIVER\0WAL\x01\0\0\0" + bytes(24), DamagedEntry, 12),
    ],
    ids=["short", "no magic", "size 37", "a log of our own"],
)
def test_a_header_that_cannot_be_is_damage(data: bytes, kind: type, offset: int) -> None:
    with pytest.raises(kind) as caught:
        upstream.decode_header(data)
    assert caught.value.offset == offset
    assert caught.value.expected is not None
    assert caught.value.found is not None


def test_a_log_of_another_version_is_refused() -> None:
    with pytest.raises(VersionError, match="version 2, this Quiver reads 1"):
        upstream.decode_header(kit.wal_header(version=2))


def test_blocks_are_of_the_slot_that_they_say_in_any_order() -> None:
    found = frame(b"xx" + ENTRY, 2)
    bundle = upstream.decode_bundle(found)
    assert (found.offset, found.end, found.entry_type) == (2, 2 + len(ENTRY), 0)
    assert (bundle.wal_seq, bundle.ingestion_ns) == (7, 5)
    assert [(p.slot_id, p.payload_type_id, p.row_count) for p in bundle.payloads] == [
        (30, 30, 2),
        (31, 31, 2),
    ]
    assert bundle.payloads[0].fingerprint == bytes([30]) * 32
    assert decode_stream(bundle.payloads[1].data).equals(BATCH)


def test_a_time_before_1970_reads_as_1970() -> None:
    assert upstream.decode_bundle(frame(kit.wal_entry(0, [], at=-5))).ingestion_ns == 0


def test_an_entry_without_a_slot_is_an_empty_bundle() -> None:
    assert upstream.decode_bundle(frame(kit.wal_entry(3, []))) == (3, 0, (), None)


def test_an_entry_of_an_unknown_type_is_read_as_far_as_its_length() -> None:
    data = kit.wal_frame(struct.pack("<BqQQ", 9, 1, 2, 1 << 63) + b"whatever")
    found = frame(data)
    assert (found.entry_type, found.end, found.blocks) == (9, len(data), ())


TWICE = kit.wal_frame(
    struct.pack("<BqQQ", 0, 0, 0, 3) + 2 * struct.pack("<H32sII", 1, bytes(32), 0, 0)
)
BEYOND = kit.wal_frame(
    struct.pack("<BqQQ", 0, 0, 0, 1) + struct.pack("<H32sII", 64, bytes(32), 0, 0)
)
LEFT_OVER = kit.wal_frame(struct.pack("<BqQQ", 0, 0, 0, 0) + b"more")
CUT_BLOCK = kit.wal_frame(struct.pack("<BqQQ", 0, 0, 0, 3) + bytes(30))
LONG_BLOCK = kit.wal_frame(
    struct.pack("<BqQQ", 0, 0, 0, 3) + struct.pack("<H32sII", 1, bytes(32), 0, 99)
)


@pytest.mark.parametrize(
    ("data", "kind", "offset"),
    [
        (ENTRY[:3], TornEntry, 0),
        (ENTRY[:-1], TornEntry, 0),
        (struct.pack("<I", 24) + bytes(40), DamagedEntry, 0),
        (struct.pack("<I", (256 << 20) + 1) + bytes(40), DamagedEntry, 0),
        (bytes(100), DamagedEntry, 0),
        (ENTRY[:50] + b"\xff" + ENTRY[51:], DamagedEntry, 0),
        (TWICE, DamagedEntry, 4 + 25 + 42),
        (BEYOND, DamagedEntry, 4 + 25),
        (LEFT_OVER, DamagedEntry, 0),
        (CUT_BLOCK, DamagedEntry, 0),
        (LONG_BLOCK, DamagedEntry, 0),
    ],
)
def test_an_entry_that_cannot_be_is_damage(data: bytes, kind: type, offset: int) -> None:
    with pytest.raises(kind) as caught:
        frame(data)
    assert type(caught.value) is kind
    assert caught.value.offset == offset
    assert None not in (caught.value.expected, caught.value.found)


def test_an_entry_is_found_although_its_length_is_wrong() -> None:
    data = b"\xff\0\0\0" + ENTRY[4:] + b"behind"
    found = upstream.frame_with_damaged_length(memoryview(data), 0)
    assert found is not None
    assert found.end == len(ENTRY)
    assert found.sequence == 7


@pytest.mark.parametrize(
    "data",
    [
        ENTRY[:20],
        b"\xff\0\0\0" + ENTRY[4:-1],
        b"\xff\0\0\0\x01" + ENTRY[5:],
        b"\xff\0\0\0" + ENTRY[4:60] + b"\xff" + ENTRY[61:],
        CUT_BLOCK,
        kit.wal_frame(
            struct.pack("<BqQQ", 0, 0, 0, 1) + struct.pack("<H32sII", 1, bytes(32), 0, 1 << 31)
        ),
        kit.wal_frame(
            struct.pack("<BqQQ", 0, 0, 0, 3)
            + struct.pack("<H32sII", 1, bytes(32), 0, (256 << 20) - 80)
        ),
    ],
    ids=["no head", "cut", "another type", "checksum", "cut block", "long block", "no room"],
)
def test_nothing_is_made_of_blocks_that_do_not_add_up(data: bytes) -> None:
    assert upstream.frame_with_damaged_length(memoryview(data), 0) is None


def test_blocks_are_added_up_without_a_checksum() -> None:
    assert upstream.blocks_fit(memoryview(b"x" + ENTRY), 1)
    assert upstream.blocks_fit(memoryview(ENTRY[:-1] + b"x"), 0)
    assert not upstream.blocks_fit(memoryview(ENTRY[:30]), 0)
    assert not upstream.blocks_fit(memoryview(b"\xff\0\0\0" + ENTRY[4:]), 0)


def test_every_changed_byte_of_an_entry_is_met() -> None:
    for place in range(len(ENTRY)):
        data = bytearray(ENTRY)
        data[place] ^= 0x55
        with pytest.raises(DamageError) as caught:
            frame(bytes(data))
        assert None not in (caught.value.expected, caught.value.found)


# cursor ----------------------------------------------------------------------------------------


def test_a_cursor_is_a_position() -> None:
    assert upstream.decode_cursor(kit.cursor(1 << 40)) == 1 << 40
    assert upstream.decode_cursor(kit.cursor(5) + b"behind it") == 5


def test_a_cursor_of_a_later_version_may_be_longer() -> None:
    assert upstream.decode_cursor(kit.cursor(5, version=2)) == 5
    assert upstream.decode_cursor(kit.cursor(5, version=7, more=b"more of it")) == 5


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (kit.cursor(5)[:-1], TornEntry),
        (b"", TornEntry),
        (kit.cursor(5, version=2, more=b"abcd")[:-1], TornEntry),
        (kit.cursor(5, more=b"abcd"), DamagedEntry),
        (kit.cursor(5, version=0), DamagedEntry),
        (kit.cursor(5)[:10] + b"\x17" + kit.cursor(5)[11:], DamagedEntry),
        (b"QUIVER\0T\x01\0\0\0" + bytes(20), DamagedEntry),
        (b"quiver\0T" + kit.cursor(5)[8:], DamagedEntry),
    ],
)
def test_a_cursor_that_cannot_be_is_damage(data: bytes, kind: type) -> None:
    with pytest.raises(kind) as caught:
        upstream.decode_cursor(data)
    assert None not in (caught.value.expected, caught.value.found)


def test_every_changed_byte_of_a_cursor_is_met() -> None:
    check_each_byte(kit.cursor(1234), upstream.decode_cursor)


# progress --------------------------------------------------------------------------------------


def test_bitmaps_become_runs() -> None:
    found = upstream.decode_progress(PROGRESS)
    assert found.flags == 0
    assert found.segments == (
        (3, 70, ((0, 2), (5, 1), (64, 1), (69, 1))),
        (4, 0, ()),
        (9, 2, ()),
    )
    assert upstream.decode_progress(kit.progress([])).segments == ()


def test_more_bundles_than_its_writer_reads_back_are_read() -> None:
    """Version 1 writes, and then refuses, more than 1,024 words."""
    count = 70_001
    data = kit.progress([(0, count, range(1, count))])
    assert upstream.decode_progress(data).segments == ((0, count, ((1, count - 1),)),)


def test_unknown_flags_and_bytes_behind_the_last_entry_mean_nothing() -> None:
    data = kit.progress([(1, 64, range(64))], flags=0xFFFF, more=b"later")
    found = upstream.decode_progress(data)
    assert (found.flags, found.segments) == (0xFFFF, ((1, 64, ((0, 64),)),))


def test_bits_beyond_the_bundles_mean_nothing() -> None:
    data = bytearray(kit.progress([(1, 3, (1,))])[:-4])
    data[-1] = 0x80
    assert upstream.decode_progress(kit.sealed(bytes(data))).segments == ((1, 3, ((1, 1),)),)


def changed(offset: int, layout: str, value: int) -> bytes:
    data = bytearray(PROGRESS[:-4])
    struct.pack_into(layout, data, offset, value)
    return kit.sealed(bytes(data))


@pytest.mark.parametrize(
    ("data", "kind", "offset"),
    [
        (PROGRESS[:35], TornEntry, 0),
        (b"quivsub\0" + PROGRESS[8:], DamagedEntry, 0),
        (PROGRESS[:-1] + b"\0", DamagedEntry, 0),
        (changed(10, "<H", 31), DamagedEntry, 10),
        (changed(10, "<H", 9999), DamagedEntry, 10),
        (changed(22, "<I", 1_000_001), DamagedEntry, 22),
        (changed(22, "<I", 5), DamagedEntry, 22),
        (changed(22, "<I", 4), DamagedEntry, 98),
        (changed(40, "<I", 129), DamagedEntry, 32),
        (changed(44, "<H", 60), DamagedEntry, 32),
        (changed(32, "<Q", 4), DamagedEntry, 62),
    ],
    ids=[
        "short",
        "no magic",
        "checksum",
        "small header",
        "large header",
        "absurd count",
        "no room for the count",
        "one more",
        "more bundles",
        "more words",
        "twice",
    ],
)
def test_a_progress_file_that_cannot_be_is_damage(data: bytes, kind: type, offset: int) -> None:
    with pytest.raises(kind) as caught:
        upstream.decode_progress(data)
    assert type(caught.value) is kind
    assert caught.value.offset == offset


def test_a_progress_file_of_another_version_is_refused() -> None:
    with pytest.raises(VersionError, match="version 2"):
        upstream.decode_progress(kit.progress([], version=2))


def test_every_changed_byte_of_a_progress_file_is_met() -> None:
    check_each_byte(PROGRESS, upstream.decode_progress)


def check_each_byte(sound: bytes, decode: Callable[[bytes], object]) -> None:
    """Change each byte in three ways, and cut the file everywhere."""
    for place in range(len(sound)):
        for mask in (1, 0x80, 0xFF):
            data = bytearray(sound)
            data[place] ^= mask
            with pytest.raises(DamageError) as caught:
                decode(bytes(data))
            assert None not in (caught.value.expected, caught.value.found)
        with pytest.raises(DamageError):
            decode(sound[:place])


def test_with_its_checksum_made_right_each_byte_is_read_or_refused() -> None:
    for sound, decode in (
        (PROGRESS, upstream.decode_progress),
        (kit.cursor(77), upstream.decode_cursor),
    ):
        for place in range(len(sound) - 4):
            for value in (0, 1, 2, 0x7F, 0xFF):
                data = sound[:place] + bytes([value]) + sound[place + 1 : -4]
                try:
                    decode(data + struct.pack("<I", zlib.crc32(data)))
                except (DamageError, VersionError):
                    continue
