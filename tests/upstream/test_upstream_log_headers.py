"""Headers of a log of the Rust Quiver, which have no checksum, and each byte of a log."""

from __future__ import annotations

import struct

import pytest
import upstream_kit as kit
from upstream_kit import ENTRIES, LENGTH

from quiver.errors import DamageError, TornEntry, VersionError
from quiver.upstream import UpstreamLog


def numbers(log: UpstreamLog) -> list[int]:
    return [logged.bundle.wal_seq for logged in log.bundles()]


def damage_header(folder: kit.Folder, name: str, offset: int, value: bytes) -> None:
    data = bytes(folder.disk.map(f"wal/{name}"))
    folder.save(f"wal/{name}", data[:offset] + value + data[offset + len(value) :])


@pytest.mark.parametrize("position", [0, 333])
@pytest.mark.parametrize("name", ["quiver.wal.1", "quiver.wal.2", "quiver.wal"])
@pytest.mark.parametrize(("offset", "value"), [(0, b"\0"), (12, b"\x25"), (12, b"\xff\xff")])
def test_a_damaged_header_costs_nothing_where_other_files_tell(
    folder, read, name, offset, value, position
) -> None:
    end = folder.add_log(*ENTRIES[:2], position=position, rotated=1)
    end = folder.add_log(*ENTRIES[2:4], position=end, rotated=2)
    folder.add_log(*ENTRIES[4:], position=end)
    folder.set_cursor(position + 3 * LENGTH)
    damage_header(folder, name, offset, value)
    log = read()
    assert numbers(log) == [3, 4, 5]
    assert not log.may_repeat
    assert [(e.path, e.offset) for e in log.damage] == [(f"memory:/wal/{name}", offset)]


@pytest.mark.parametrize(("offset", "value"), [(0, b"\0"), (12, b"\x25")])
def test_a_damaged_header_of_the_only_file_makes_all_of_it_be_given(
    folder, read, offset, value
) -> None:
    folder.add_log(*ENTRIES)
    folder.set_cursor(LENGTH)
    damage_header(folder, "quiver.wal", offset, value)
    log = read()
    assert numbers(log) == list(range(6))
    assert log.may_repeat == "the header of a log file is damaged"


def test_a_header_that_is_shorter_than_it_says_is_met(folder, read) -> None:
    folder.add_log(*ENTRIES)
    folder.set_cursor(0)
    damage_header(folder, "quiver.wal", 12, struct.pack("<H", 39))
    log = read()
    assert numbers(log) == list(range(6))
    assert [(e.offset, e.expected, e.found) for e in log.damage] == [(12, 38, 39)]


def test_another_layout_is_told_and_read(folder, read) -> None:
    folder.add_log(*ENTRIES)
    folder.set_cursor(0)
    damage_header(folder, "quiver.wal", 14, b"a digest of 16 b")
    log = read()
    assert numbers(log) == list(range(6))
    assert [(e.offset, e.expected) for e in log.damage] == [(14, kit.LAYOUT)]


def test_a_torn_header_is_damage(folder, read) -> None:
    folder.save("wal/quiver.wal", kit.wal_header()[:20])
    folder.set_cursor(0)
    assert [type(e) for e in read().damage] == [TornEntry]


def test_another_version_is_refused_with_its_path(folder, disk) -> None:
    folder.save("wal/quiver.wal", kit.wal_header(version=2))
    with pytest.raises(VersionError, match=r"memory:/wal/quiver\.wal: a log of the Rust"):
        UpstreamLog(disk, "wal")


def test_every_changed_byte_of_a_log_costs_at_most_the_entry_around_it(folder, disk) -> None:
    folder.add_log(*ENTRIES[:3])
    folder.set_cursor(0)
    data = bytes(disk.map("wal/quiver.wal"))
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        folder.save("wal/quiver.wal", changed)
        try:
            log = UpstreamLog(disk, "wal")
        except VersionError:
            assert place in (10, 11)
            continue
        hit = (place - 38) // LENGTH if place >= 38 else -1
        found = numbers(log)
        assert [n for n in range(3) if n != hit] == [n for n in found if n != hit], place
        assert log.damage or log.torn or log.may_repeat, place
        for error in log.damage:
            assert error.path.startswith("memory:/wal/quiver.wal")
            assert None not in (error.expected, error.found)


def test_every_cut_of_a_log_keeps_what_is_before_it(folder, disk) -> None:
    folder.add_log(*ENTRIES[:3])
    folder.set_cursor(0)
    data = bytes(disk.map("wal/quiver.wal"))
    for end in range(len(data)):
        folder.save("wal/quiver.wal", data[:end])
        log = UpstreamLog(disk, "wal")
        assert numbers(log) == list(range(max(0, end - 38) // LENGTH))
        assert all(isinstance(error, DamageError) for error in log.damage)
