"""A log of the Rust Quiver: what no segment holds is given, past damage, and nothing is changed."""

from __future__ import annotations

import struct

import pytest
import upstream_kit as kit
from upstream_kit import ENTRIES, LENGTH, numbered

from quiver.errors import DamagedEntry, TornEntry
from quiver.upstream import UpstreamLog
from quiver.upstream import reader as reader_module


def numbers(log: UpstreamLog) -> list[int]:
    return [logged.bundle.wal_seq for logged in log.bundles()]


def sound(log: UpstreamLog) -> bool:
    return not (log.damage or log.bad or log.torn or log.may_repeat)


@pytest.mark.parametrize("covered", range(7))
def test_what_lies_behind_the_cursor_is_given(folder, read, covered) -> None:
    folder.add_log(*ENTRIES)
    folder.set_cursor(covered * LENGTH)
    log = read()
    assert numbers(log) == list(range(covered, 6))
    assert sound(log)
    assert [logged.bundle.ingestion_ns for logged in log.bundles()] == [
        number * 10 for number in range(covered, 6)
    ]


@pytest.mark.parametrize("covered", range(7))
def test_several_files_are_one_log_in_order_of_their_positions(folder, read, covered) -> None:
    end = folder.add_log(*ENTRIES[:2], position=5000, rotated=9)
    end = folder.add_log(*ENTRIES[2:3], position=end, rotated=10, more=b"a longer header")
    folder.add_log(*ENTRIES[3:], position=end)
    folder.set_cursor(5000 + covered * LENGTH)
    log = read()
    assert numbers(log) == list(range(covered, 6))
    assert sound(log)


def test_files_that_segments_hold_are_not_even_read(folder, disk, read) -> None:
    end = folder.add_log(*ENTRIES[:2], rotated=1)
    folder.add_log(*ENTRIES[2:], position=end)
    folder.set_cursor(end)
    path = "wal/quiver.wal.1"
    data = bytes(disk.map(path))
    kit.save(disk, path, data[:40] + b"\xff" * 20 + data[60:])
    assert sound(read())


def test_a_folder_without_a_log_has_none(disk) -> None:
    log = UpstreamLog(disk, "wal")
    assert numbers(log) == []
    assert sound(log)
    assert log.file_bytes == 0


def test_only_rotated_files_are_a_log_too(folder, read) -> None:
    folder.add_log(*ENTRIES[:2], rotated=1)
    folder.set_cursor(LENGTH)
    assert numbers(read()) == [1]


@pytest.mark.parametrize("made", ["an empty file", "a header alone"])
def test_an_active_file_without_entries_is_no_damage(folder, read, made) -> None:
    end = folder.add_log(*ENTRIES[:2], rotated=1)
    if made == "an empty file":
        folder.save("wal/quiver.wal", b"")
    else:
        folder.add_log(position=0)
    folder.set_cursor(end - LENGTH)
    log = read()
    assert numbers(log) == [1]
    assert sound(log)


def test_a_file_that_begins_at_0_again_is_given_whole(folder, read) -> None:
    """Its writer does that to a file that a power cut left empty, and skips what it then holds."""
    end = folder.add_log(*ENTRIES[:4], position=700, rotated=1)
    folder.add_log(*ENTRIES[4:], position=0)
    folder.set_cursor(end - LENGTH)
    log = read()
    assert numbers(log) == [3, 4, 5]
    assert log.may_repeat == "the positions of the log go back"
    assert [(e.path, e.offset, e.expected, e.found) for e in log.damage] == [
        ("memory:/wal/quiver.wal", 30, end, 0)
    ]


def test_a_missing_file_is_told_and_the_cursor_still_holds(folder, read) -> None:
    folder.add_log(*ENTRIES[:2], rotated=1)
    folder.add_log(*ENTRIES[4:], position=4 * LENGTH)
    folder.set_cursor(5 * LENGTH)
    log = read()
    assert numbers(log) == [5]
    assert not log.may_repeat
    assert [(e.offset, e.expected, e.found) for e in log.damage] == [(30, 2 * LENGTH, 4 * LENGTH)]


# cursor ----------------------------------------------------------------------------------------


def test_without_a_cursor_all_is_given_and_may_repeat(folder, read) -> None:
    folder.add_log(*ENTRIES)
    log = read()
    assert numbers(log) == list(range(6))
    assert log.may_repeat == "there is no cursor"
    assert log.damage == []


def test_an_empty_log_without_a_cursor_repeats_nothing(folder, read) -> None:
    folder.add_log()
    assert sound(read())


def test_a_damaged_cursor_is_told_and_all_is_given(folder, read) -> None:
    folder.add_log(*ENTRIES)
    folder.save("wal/quiver.wal.cursor", b"\0" + kit.cursor(LENGTH)[1:])
    log = read()
    assert numbers(log) == list(range(6))
    assert log.may_repeat == "the cursor is damaged"
    assert [e.path for e in log.damage] == ["memory:/wal/quiver.wal.cursor"]


@pytest.mark.parametrize("position", [1, LENGTH - 1, 6 * LENGTH + 1, 1 << 60])
def test_a_cursor_that_no_entry_ends_at_is_not_believed(folder, read, position) -> None:
    """The log lost bytes behind it in a power cut, and what came later may lie below it."""
    folder.add_log(*ENTRIES)
    folder.set_cursor(position)
    log = read()
    assert numbers(log) == list(range(6))
    assert log.may_repeat == "the cursor names no place where an entry begins"


def test_a_cursor_before_the_log_may_repeat(folder, read) -> None:
    folder.add_log(*ENTRIES, position=900)
    folder.set_cursor(100)
    log = read()
    assert numbers(log) == list(range(6))
    assert log.may_repeat == "the cursor lies before the log"


def test_a_cursor_inside_damage_is_believed(folder, read) -> None:
    folder.add_log(ENTRIES[0], b"\xff" * LENGTH, *ENTRIES[2:])
    folder.set_cursor(LENGTH + 50)
    log = read()
    assert numbers(log) == [2, 3, 4, 5]
    assert not log.may_repeat
    assert len(log.bad) == 1


# damage ----------------------------------------------------------------------------------------


def test_a_damaged_entry_costs_only_itself(folder, read) -> None:
    broken = bytearray(ENTRIES[2])
    broken[60] ^= 1
    folder.add_log(*ENTRIES[:2], bytes(broken), *ENTRIES[3:])
    folder.set_cursor(LENGTH)
    log = read()
    assert numbers(log) == [1, 3, 4, 5]
    (bad,) = log.bad
    assert (bad.path, bad.offset, bad.end) == ("wal/quiver.wal", 38 + 2 * LENGTH, 38 + 3 * LENGTH)
    assert type(bad.error) is DamagedEntry
    assert log.damage == [bad.error]
    assert bad.error.path == "memory:/wal/quiver.wal"
    assert bad.error.offset == 38 + 2 * LENGTH


def test_damage_in_what_segments_hold_is_not_told(folder, read) -> None:
    broken = bytearray(ENTRIES[1])
    broken[60] ^= 1
    folder.add_log(ENTRIES[0], bytes(broken), *ENTRIES[2:])
    folder.set_cursor(3 * LENGTH)
    log = read()
    assert numbers(log) == [3, 4, 5]
    assert sound(log)


def test_a_wrong_length_costs_nothing_and_is_told(folder, read) -> None:
    folder.add_log(ENTRIES[0], b"\xff\xff\0\0" + ENTRIES[1][4:], *ENTRIES[2:])
    folder.set_cursor(0)
    log = read()
    assert numbers(log) == list(range(6))
    assert [e.offset for e in log.damage] == [38 + LENGTH]
    assert log.bad == []


def test_the_way_is_found_again_where_lengths_are_lost_too(folder, read, monkeypatch) -> None:
    monkeypatch.setattr(reader_module, "_SEARCH", 600)
    monkeypatch.setattr("quiver.disk.window.WINDOW_BYTES", 500)
    for garbage in (b"\xff" * 1000, bytes(1000), b"\x20\0\0\0\0" * 200):
        folder.add_log(ENTRIES[0], garbage, *ENTRIES[3:])
        folder.set_cursor(0)
        log = read()
        assert numbers(log) == [0, 3, 4, 5]
        assert [(bad.offset, bad.end) for bad in log.bad] == [
            (38 + LENGTH, 38 + LENGTH + len(garbage))
        ]


def test_the_way_is_found_wherever_a_window_of_the_search_ends(folder, read, monkeypatch) -> None:
    monkeypatch.setattr(reader_module, "_SEARCH", 200)
    for length in range(150, 420, 3):
        folder.add_log(ENTRIES[0], b"\xff" * length, *ENTRIES[3:])
        folder.set_cursor(0)
        assert numbers(read()) == [0, 3, 4, 5], length


def test_a_log_inside_a_payload_is_not_taken_for_entries(folder, read) -> None:
    """Of an entry with a damaged byte its length still says where the next one is."""
    inner = kit.wal_header() + b"".join(numbered(number) for number in range(100, 110))
    broken = bytearray(kit.wal_entry(1, [(62, inner)]))
    broken[30] ^= 1
    folder.add_log(ENTRIES[0], bytes(broken), *ENTRIES[2:])
    folder.set_cursor(0)
    assert numbers(read()) == [0, 2, 3, 4, 5]


def test_a_search_goes_on_with_later_entries_only(folder, read) -> None:
    broken = bytearray(ENTRIES[3])
    broken[:4] = b"\xff\xff\xff\xff"
    broken[20] ^= 1
    folder.add_log(*ENTRIES[:3], bytes(broken), numbered(1), *ENTRIES[4:])
    folder.set_cursor(0)
    assert numbers(read()) == [0, 1, 2, 4, 5]


def test_what_is_checksummed_in_a_search_is_bounded(folder, read, monkeypatch) -> None:
    """Bytes of which each looks like an entry that fills the rest of the file."""
    monkeypatch.setattr(reader_module, "_CHECK_WORK", 0)
    monkeypatch.setattr(reader_module, "_SEARCH", 300)
    near = struct.pack("<IBqQQ", 25, 0, 0, 0, 0) + b"bad!"
    folder.add_log(b"\xff" * 40, near * 20, *ENTRIES)
    folder.set_cursor(0)
    log = read()
    assert numbers(log) == []
    assert [bad.end for bad in log.bad] == [log.file_bytes]


def test_an_unknown_type_of_entry_ends_nothing(folder, read) -> None:
    other = kit.wal_frame(struct.pack("<BqQQ", 3, 0, 99, 0) + b"of a later version")
    folder.add_log(ENTRIES[0], other, *ENTRIES[1:3])
    folder.set_cursor(0)
    log = read()
    assert numbers(log) == [0, 1, 2]
    assert sound(log)


@pytest.mark.parametrize("tail", [ENTRIES[2][:-1], ENTRIES[2][:30], b"\x40", bytes(500)])
def test_an_append_that_was_never_finished_is_no_damage(folder, read, tail) -> None:
    folder.add_log(*ENTRIES[:2], tail)
    folder.set_cursor(LENGTH)
    log = read()
    assert numbers(log) == [1]
    assert log.damage == []
    assert log.torn is not None
    assert (log.torn.path, log.torn.offset) == ("memory:/wal/quiver.wal", 38 + 2 * LENGTH)


def test_a_last_entry_that_is_whole_and_wrong_is_damage(folder, read) -> None:
    folder.add_log(*ENTRIES[:2], ENTRIES[2][:-1] + b"\0")
    folder.set_cursor(0)
    log = read()
    assert log.torn is None
    assert [bad.offset for bad in log.bad] == [38 + 2 * LENGTH]


def test_a_rotated_file_that_ends_early_is_damage(folder, read) -> None:
    end = folder.add_log(*ENTRIES[:2], ENTRIES[2][:-1], rotated=1)
    folder.add_log(*ENTRIES[3:], position=end)
    folder.set_cursor(0)
    log = read()
    assert numbers(log) == [0, 1, 3, 4, 5]
    assert [type(bad.error) for bad in log.bad] == [TornEntry]
