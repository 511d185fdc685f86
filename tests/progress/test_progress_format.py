"""The bytes of progress: there and back, limits, every flip and every cut, the page's dump."""

from __future__ import annotations

import re
import struct
import sys
from importlib import import_module
from pathlib import Path

import pytest
from crc32c import crc32c

from quiver.errors import DamagedEntry, DamageError, InputError, TornEntry, VersionError
from quiver.progress import EPOCH_MAX, Note, Table, decode_note, encode_note
from quiver.progress import format as f
from quiver.progress.file import read_copies

GOLDEN = Path(__file__).parents[1] / "golden"
DATA = (GOLDEN / "v1/progress/progress").read_bytes()
PAGE = Path(f.__file__).with_name("FORMAT.md").read_text()
STORE_ID = bytes(range(16))

sys.path.insert(0, str(GOLDEN))
made = import_module("make_v1_progress")
sys.path.remove(str(GOLDEN))

NOTE = Note("s", 3, {"b": "2", "a": "1", "c": None})


def read(data: bytes):
    return read_copies(data, core=0, store_id=STORE_ID.hex())


def test_a_note_is_these_bytes_and_comes_back_in_order_of_its_splits() -> None:
    data = encode_note(NOTE)
    assert data == (
        struct.pack("<BBHIQ", 1, 0, 1, 3, 3)
        + b"s"
        + struct.pack("<HI", 1, 1)
        + b"a1"
        + struct.pack("<HI", 1, 1)
        + b"b2"
        + struct.pack("<HI", 1, 0xFFFFFFFF)
        + b"c"
    )
    assert decode_note(data) == NOTE
    assert list(decode_note(data).states) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (Note("", 1, {"a": "1"}), "name of a source has 0"),
        (Note("s" * 1025, 1, {"a": "1"}), "name of a source has 1,025"),
        (Note("s", 1, {}), "no split"),
        (Note("s", 1, {"": "1"}), "id of a split has 0"),
        (Note("s", 1, {"ü" * 513: "1"}), "id of a split has 1,026"),
        (Note("s", 1, {"a": ""}), "a state has 0"),
        (Note("s", 1, {"a": "x" * ((1 << 20) + 1)}), "a state has 1,048,577"),
        (Note("s", 1, {"a": 1}), "a state is 1, not a text"),
        (Note("s", 1, {"a": "\ud800"}), "UTF-8"),
        (Note("s", 0, {"a": "1"}), "epoch 0"),
        (Note("s", EPOCH_MAX + 1, {"a": "1"}), "epoch"),
        (Note("s", 1, {str(n): "x" * (1 << 20) for n in range(16)}), "the limit is 16,777,216"),
    ],
)
def test_what_cannot_be_read_again_is_not_written(note: Note, words: str) -> None:
    with pytest.raises(InputError, match=words):
        encode_note(note)


@pytest.mark.parametrize(
    ("lag", "head"), [(0, (1, 0)), (1, (2, 1)), (255, (2, 255)), (256, (2, 255))]
)
def test_a_note_with_a_lag_is_of_another_version(lag, head) -> None:
    data = encode_note(NOTE._replace(lag=lag))
    assert tuple(data[:2]) == head
    assert data[2:] == encode_note(NOTE)[2:]
    assert decode_note(data) == NOTE._replace(lag=head[1])
    assert f.with_lag(data, 0) == encode_note(NOTE)


def test_a_lag_of_none_is_damage() -> None:
    with pytest.raises(DamagedEntry, match="head of a note"):
        decode_note(b"\2\0" + encode_note(NOTE)[2:])


def test_the_longest_texts_and_the_highest_epoch_come_back() -> None:
    note = Note("s" * 1024, EPOCH_MAX, {"i" * 1024: "x" * (1 << 20)})
    assert decode_note(encode_note(note)) == note


@pytest.mark.parametrize(
    ("at", "layout", "value", "words"),
    [
        (1, "<B", 1, "head of a note"),
        (2, "<H", 0, "impossible length"),
        (2, "<H", 1025, "impossible length"),
        (4, "<I", 0, "head of a note"),
        (4, "<I", 2, "longer than it says"),
        (4, "<I", 4, "ends early"),
        (8, "<Q", 0, "head of a note"),
        (8, "<Q", EPOCH_MAX + 1, "head of a note"),
        (17, "<H", 0, "impossible length"),
        (19, "<I", 0, "impossible length"),
        (19, "<I", (1 << 20) + 1, "impossible length"),
        (23, "<B", ord("b"), "out of order"),
        (24, "<B", 0xFF, "UTF-8"),
    ],
)
def test_a_note_with_a_wrong_field_is_damage(at, layout, value, words) -> None:
    data = bytearray(encode_note(NOTE))
    struct.pack_into(layout, data, at, value)
    with pytest.raises(DamagedEntry, match=words):
        decode_note(data)


def test_a_newer_note_or_file_says_so() -> None:
    with pytest.raises(VersionError, match="version 3"):
        decode_note(b"\3" + encode_note(NOTE)[1:])
    newer = DATA[: len(DATA) // 2 - 4]
    newer = newer[:8] + b"\2" + newer[9:]
    with pytest.raises(VersionError, match="version 2"):
        read(2 * (newer + struct.pack("<I", crc32c(newer))))


def test_every_cut_of_a_note_is_damage() -> None:
    data = encode_note(NOTE)
    for end in range(len(data)):
        with pytest.raises(DamagedEntry):
            decode_note(data[:end])


def test_the_golden_file_reads_as_it_was_written() -> None:
    content, damage = read(DATA)
    assert damage == []
    assert (content.wal_seq, content.notes) == (42, made.NOTES)
    assert made.progress() == DATA


def test_the_hex_dump_of_the_page_is_the_golden_file() -> None:
    dump = PAGE.split("## 3.")[1].split("## 4.")[0]
    lines = re.findall(r"^ {4}([0-9a-f]{6})  ((?:[0-9a-f]{2} )+)", dump, re.MULTILINE)
    assert len(lines) > 15
    for offset, digits in lines:
        start, shown = int(offset, 16), bytes.fromhex(digits)
        assert DATA[start : start + len(shown)] == shown, offset


def test_any_flipped_byte_is_told_and_costs_nothing() -> None:
    for at in range(len(DATA)):
        data = DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]
        content, damage = read(data)
        assert content.notes == made.NOTES, at
        assert len(damage) == 1, at


def test_a_file_that_was_cut_is_told_and_its_first_copy_counts() -> None:
    for end in range(len(DATA)):
        content, damage = read(DATA[:end])
        assert content.notes == (made.NOTES if end >= len(DATA) // 2 else []), end
        assert damage, end


def test_what_is_wrong_with_both_copies_leaves_nothing() -> None:
    content, damage = read(DATA.replace(b"1:7", b"1:8"))
    assert (content.wal_seq, content.notes) == (-1, [])
    assert "checksum" in str(damage[0])


@pytest.mark.parametrize(("core", "store_id"), [(1, STORE_ID), (0, bytes(16))])
def test_the_file_of_another_core_is_not_believed(core: int, store_id: bytes) -> None:
    content, damage = read_copies(DATA, core=core, store_id=store_id.hex())
    assert content.notes == []
    assert "another core" in str(damage[0])


def test_an_impossible_length_is_refused_before_it_is_read() -> None:
    head = f.HEAD.pack(f.MAGIC, 1, 0, 0, STORE_ID, 1, f.TABLE_BYTES_MAX + 1)
    with pytest.raises(TornEntry):
        f.decode_copy(head + bytes(100), core=0, store_id=STORE_ID)


def test_the_newest_state_of_each_split_counts_in_any_order() -> None:
    notes = [
        (5, Note("s", 1, {"a": "old", "b": "kept"})),
        (1, Note("s", 2, {"a": "later follower"})),
        (2, Note("s", 2, {"c": "gone"})),
        (3, Note("s", 2, {"c": None})),
        (9, Note("t", 1, {"a": "other source"})),
    ]
    for order in (notes, notes[::-1], notes[2:] + notes[:2]):
        table = Table(order)
        assert table.states("s") == {"a": "later follower", "b": "kept"}
        assert (table.epoch("s"), table.epoch("t"), table.epoch("u")) == (2, 1, 0)
        assert table.sources() == ["s", "t"]
        assert Table.decode(table.encode()).encode() == table.encode()
        assert table.rows("s")["c"].state is None
        assert 0 < len(table.encode()) <= table.byte_count()
    assert not Table()


def test_a_table_that_ends_early_is_damage() -> None:
    data = Table([(1, NOTE)]).encode()
    for end in range(1, len(data)):
        with pytest.raises(DamageError):
            Table.decode(data[:end])
