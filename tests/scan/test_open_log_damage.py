"""Damage of a log that is scanned: told where it takes an open bundle, passed over where not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from crc32c import crc32c
from open_kit import snapshot, view
from store_kit import abandon, bundle, numbers, on_memory

import quiver
from quiver.errors import DamagedEntry, DamageError, VersionError
from quiver.manifest import StoreManifest
from quiver.payload import EncodedBundle, Payload
from quiver.scan import take_snapshot
from quiver.testing import MemoryDisk
from quiver.wal.format import BUNDLE, HEAD, HEADER_BYTES, LENGTH, encode_bundle, encode_header
from quiver.wal.reader import Entry, walk

HUGE = {"target_size": "1GiB", "max_open_duration": "1h"}
LOG = "core_0/wal/quiver.wal"
SIDECAR = "core_0/wal/truncate.offset"
ACKS = "core_0/acks/ack.log"


def opened(disk: MemoryDisk, **wal: object) -> quiver.Store:
    return on_memory(disk, wal=wal, segment=HUGE)


def left(*counts: int, subscribed: bool = False, **wal: object) -> MemoryDisk:
    """Give what a killed writer left that finalized between these counts of bundles."""
    disk = MemoryDisk()
    store = opened(disk, **wal)
    if subscribed:
        store.subscribe("reader")
    number = 0
    for index, count in enumerate(counts):
        if index:
            store.finalize()
        for _ in range(count):
            store.append(bundle(number))
            number += 1
    if subscribed:
        numbers(store)
        store.maintain()
    abandon(store)
    return disk


def read(disk: MemoryDisk, path: str) -> bytes:
    with closing(disk.open(path)) as file:
        return file.read(0, file.size())


def write(disk: MemoryDisk, path: str, data: bytes) -> None:
    if disk.stat(path) is None:
        disk.create(path).close()
    with closing(disk.open(path, writable=True)) as file:
        file.truncate(0)
        file.write(0, data)


def flip(disk: MemoryDisk, path: str, offset: int) -> None:
    data = bytearray(read(disk, path))
    data[offset] ^= 0xFF
    write(disk, path, bytes(data))


def entries(disk: MemoryDisk, path: str = LOG) -> Iterator[Entry]:
    with closing(disk.open(path)) as file:
        for item in walk(file, HEADER_BYTES, entry_bytes_max=1 << 20):
            if isinstance(item, Entry) and item.frame.entry_type == BUNDLE:
                yield item


def refused(disk: MemoryDisk) -> DamageError:
    with pytest.raises(DamageError) as caught:
        snapshot(disk)
    return caught.value


# the end of the log ----------------------------------------------------------------------------


@pytest.mark.parametrize("wal", [{}, {"reclaim_size": 1}], ids=str)
def test_a_torn_tail_of_any_length_costs_the_append_that_was_not_finished_alone(wal) -> None:
    disk = left(2, 3, **wal)
    data = read(disk, LOG)
    last = list(entries(disk))[-1]
    for length in range(last.offset, len(data)):
        write(disk, LOG, data[:length])
        assert view(disk) == ([0, 1], [2, 3])
        write(disk, LOG, data[:length] + bytes(100))
        expected = [2, 3] if any(data[length:]) else [2, 3, 4]
        if length in (last.offset, len(data)) or length - last.offset < 4:
            assert view(disk) == ([0, 1], expected)


def test_a_tail_of_zeros_is_an_append_that_was_not_finished() -> None:
    disk = left(2, 3)
    write(disk, LOG, read(disk, LOG) + bytes(5000))
    assert view(disk) == ([0, 1], [2, 3, 4])


def test_a_last_entry_that_is_whole_and_wrong_is_told_for_it_may_have_been_acknowledged() -> None:
    disk = left(2, 3)
    last = list(entries(disk))[-1]
    flip(disk, LOG, last.end - 20)
    error = refused(disk)
    assert isinstance(error, DamagedEntry)
    assert (error.path, error.offset) == (disk.locate(LOG), last.offset)


# between entries -------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", [2, 3, 4])
def test_damage_of_an_open_bundle_is_told_with_its_place(victim: int) -> None:
    disk = left(2, 4)
    entry = list(entries(disk))[victim]
    flip(disk, LOG, entry.offset + 60)
    error = refused(disk)
    assert (error.path, error.offset) == (disk.locate(LOG), entry.offset)


@pytest.mark.parametrize("victim", [0, 1])
def test_damage_of_what_segments_hold_is_of_no_account(victim: int) -> None:
    disk = left(2, 2)
    flip(disk, LOG, list(entries(disk))[victim].offset + 60)
    assert view(disk) == ([0, 1], [2, 3])


@pytest.mark.parametrize("subscribed", [False, True])
def test_damage_at_the_end_is_of_no_account_if_segments_hold_or_held_it(subscribed) -> None:
    disk = left(2, 2, 0, subscribed=subscribed)
    flip(disk, LOG, list(entries(disk))[-1].offset + 60)
    assert view(disk) == ([] if subscribed else [0, 1, 2, 3], [])


def test_a_damaged_length_costs_nothing() -> None:
    disk = left(2, 3)
    flip(disk, LOG, list(entries(disk))[3].offset + 2)
    assert view(disk) == ([0, 1], [2, 3, 4])


def test_damage_that_a_recovery_set_aside_was_told_and_is_passed_over() -> None:
    disk = left(2, 4)
    flip(disk, LOG, list(entries(disk))[3].offset + 60)
    refused(disk)
    store = opened(disk)
    assert store.recovery.damage
    assert view(disk) == ([0, 1], [2, 4, 5])
    store.close()
    assert view(disk) == ([0, 1, 2, 4, 5], [])


def test_a_damaged_end_that_a_recovery_set_aside_is_passed_over_with_its_numbers() -> None:
    disk = left(2, 3)
    flip(disk, LOG, list(entries(disk))[-1].offset + 60)
    store = opened(disk)
    number = store.recovery.lost_wal_seqs[1]
    assert view(disk) == ([0, 1], [2, 3])
    assert store.append(bundle(number)) == number
    assert view(disk) == ([0, 1], [2, 3, number])
    abandon(store)
    assert view(disk) == ([0, 1], [2, 3, number])


def test_of_two_damaged_places_the_one_that_was_not_set_aside_is_told() -> None:
    disk = left(0, 6)
    places = list(entries(disk))
    flip(disk, LOG, places[1].offset + 60)
    abandon(opened(disk))
    flip(disk, LOG, places[3].offset + 60)
    assert refused(disk).offset == places[3].offset


# files -----------------------------------------------------------------------------------------


def test_a_file_of_the_log_that_is_gone_is_told_by_the_numbers_that_are_missing() -> None:
    disk = left(2, 7, rotate_size=1200)
    disk.unlink("core_0/wal/quiver.wal.2")
    error = refused(disk)
    assert "missing from the log" in str(error)
    assert error.path.startswith(disk.locate("core_0/wal/quiver.wal"))


def test_files_that_segments_cover_may_be_gone_or_damaged() -> None:
    disk = left(7, 1, rotate_size=1200, reclaim_size="1GiB")
    names = [entry.name for entry in disk.list_dir("core_0/wal")]
    expected = view(disk)
    assert expected == ([0, 1, 2, 3, 4, 5, 6], [7])
    write(disk, SIDECAR, b"")
    for name in names:
        if name.startswith("quiver.wal."):
            disk.unlink(f"core_0/wal/{name}")
    assert view(disk) == expected


@pytest.mark.parametrize("counts", [(3,), (2, 1), (2, 0)])
def test_a_log_that_is_gone_is_told_if_there_was_one(counts) -> None:
    disk = left(*counts)
    disk.unlink(LOG)
    if len(counts) == 1:
        write(disk, SIDECAR, b"garbage")
    error = refused(disk)
    assert (error.message, error.path) == ("the log is missing", disk.locate(LOG))
    assert "include_open" in error.hint


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1])
def test_a_log_that_is_cut_inside_its_header_is_told(length: int) -> None:
    disk = left(2, 1)
    write(disk, LOG, read(disk, LOG)[:length])
    error = refused(disk)
    assert "header" in error.message
    assert error.path == disk.locate(LOG)


def test_a_header_with_one_wrong_byte_costs_nothing_and_that_of_another_layout_is_refused() -> None:
    disk = left(2, 1)
    flip(disk, LOG, 0)
    assert view(disk) == ([0, 1], [2])
    write(disk, LOG, encode_header(b"another layout..") + read(disk, LOG)[HEADER_BYTES:])
    with pytest.raises(VersionError, match="layout"):
        snapshot(disk)


@pytest.mark.parametrize("data", [None, b"", b"garbage", bytes(32), b"\xff" * 40])
@pytest.mark.parametrize(
    "wal", [{}, {"reclaim_size": 1}, {"reclaim": "copy", "reclaim_size": 1}], ids=str
)
def test_no_state_of_the_sidecar_changes_what_is_seen(wal, data) -> None:
    disk = left(2, 3, 2, **wal)
    expected = view(disk)
    assert expected == ([0, 1, 2, 3, 4], [5, 6])
    if data is None:
        disk.unlink(SIDECAR)
    else:
        write(disk, SIDECAR, data)
    assert view(disk) == expected


def test_a_place_that_a_power_cut_made_wrong_hides_no_damage() -> None:
    """A segment may hold more than what is left of the log; appends go on before its place."""
    disk = left(4, 0, durability="interval")
    write(disk, LOG, read(disk, LOG)[: list(entries(disk))[1].end])
    store = opened(disk)
    for number in (4, 5, 6):
        store.append(bundle(number))
    abandon(store)
    assert view(disk) == ([0, 1, 2, 3], [4, 5, 6])
    victim = list(entries(disk))[2]
    flip(disk, LOG, victim.offset + 60)
    assert refused(disk).offset == victim.offset


# segments and floors ---------------------------------------------------------------------------


def cut_end(disk: MemoryDisk, segment_seq: int) -> str:
    path = f"core_0/segments/{segment_seq:016d}.qseg"
    write(disk, path, read(disk, path)[:-10])
    return path


def segments_and_open(disk: MemoryDisk) -> tuple[list[int], list[int]]:
    segments, bundles = take_snapshot(disk, StoreManifest.read(disk), include_open=True)
    return [ref.segment_seq for ref in segments], [one.wal_seq for one in bundles]


def test_the_floor_tells_what_the_newest_segment_no_longer_does() -> None:
    disk = left(2, 2, 3)
    cut_end(disk, 1)
    assert segments_and_open(disk) == ([0, 1], [4, 5, 6])


def without_last_floor(disk: MemoryDisk) -> None:
    """Leave ack.log as if the writer had been killed between the last segment and its floor."""
    write(disk, ACKS, read(disk, ACKS)[:-128])


def test_a_segment_that_no_floor_covers_yet_is_told_by_its_footer() -> None:
    disk = left(2, 2, 3)
    without_last_floor(disk)
    assert view(disk) == ([0, 1, 2, 3], [4, 5, 6])


def test_a_damaged_segment_that_no_floor_covers_leaves_it_unknown_what_is_open() -> None:
    disk = left(2, 2, 3)
    without_last_floor(disk)
    path = cut_end(disk, 1)
    error = refused(disk)
    assert "not known" in error.message
    assert error.path == disk.locate(path)
    assert "include_open" in error.hint
    assert take_snapshot(disk, StoreManifest.read(disk), include_open=False)[1] == ()


def test_a_damaged_segment_is_of_no_account_if_nothing_in_the_log_is_in_doubt() -> None:
    disk = left(2, 3, 0, reclaim_size=1)
    without_last_floor(disk)
    cut_end(disk, 1)
    assert segments_and_open(disk) == ([0, 1], [])


def test_an_older_segment_with_a_damaged_end_is_of_no_account() -> None:
    disk = left(2, 2, 3)
    cut_end(disk, 0)
    assert segments_and_open(disk) == ([0, 1], [4, 5, 6])


@pytest.mark.parametrize("subscribed", [False, True])
def test_without_ack_log_deleted_bundles_could_come_back_so_that_is_told(subscribed) -> None:
    disk = left(2, 2, 0, subscribed=subscribed)
    disk.unlink(ACKS)
    if not subscribed:
        assert segments_and_open(disk) == ([0, 1], [])
        return
    error = refused(disk)
    assert (error.message, error.path) == ("ack.log is missing", disk.locate(ACKS))


# entries ---------------------------------------------------------------------------------------


def test_an_entry_of_a_newer_kind_is_passed_over_and_may_have_used_up_numbers() -> None:
    disk = left(0, 2)
    body = HEAD.pack(9, 0, 0, 0)
    newer = LENGTH.pack(len(body)) + body + crc32c(body).to_bytes(4, "little")
    [first, second] = entries(disk)
    data = read(disk, LOG)
    later = bytearray(data[second.offset :])
    later[4 + 1 + 8] = 5  # Its number.
    later[-4:] = crc32c(bytes(later[4:-4])).to_bytes(4, "little")
    write(disk, LOG, data[: first.end] + newer + bytes(later))
    assert segments_and_open(disk) == ([], [0, 5])
    write(disk, LOG, data[: first.end] + bytes(later))
    assert "4 bundles are missing" in str(refused(disk))


def test_bundles_that_no_one_can_decode_are_told_when_they_are_read() -> None:
    disk = left(0, 1)
    [entry] = entries(disk)
    frame = entry.frame
    broken = EncodedBundle(frame.wal_seq + 1, 5, (Payload(0, 0, bytes(32), 1, b"no Arrow"),))
    write(disk, LOG, read(disk, LOG) + encode_bundle(broken))
    _, (_, bad) = snapshot(disk)
    with pytest.raises(DamagedEntry, match="bundle 1 cannot be decoded") as caught:
        bad.batch(disk, 0)
    assert (caught.value.path, caught.value.offset) == (disk.locate("core_0/wal"), entry.end)
