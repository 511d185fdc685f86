"""Rare turns of the log: refused writes, disks without holes, borders of the search, odd names."""

from __future__ import annotations

import contextlib
import threading

import pytest
from wal_kit import CHECKPOINT_BYTES, DIGEST, LIMIT, SIZE, Folder, append, bundle, start_of

from quiver.config import WalConfig
from quiver.disk.local_file import LocalFile
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    PoisonedError,
    QuiverError,
    StorageError,
    TornEntry,
)
from quiver.testing import MemoryDisk
from quiver.testing.acts import Act, Rename, Sync, SyncDir, Truncate, Unlink, Write
from quiver.testing.recorder import FaultKind, Killed
from quiver.wal import Log, Place, Replay
from quiver.wal.format import ENTRY_OVERHEAD, HEAD, HEADER_BYTES, encode_bundle
from quiver.wal.reader import BadRegion, Entry, Tail, walk
from quiver.wal.sidecar import encode_sidecar
from quiver.wal.writer import Writer

FRAME_MIN = ENTRY_OVERHEAD + HEAD.size
WINDOW = 1 << 20


def start(disk: MemoryDisk, covered_seq: int | None = None, **config: int) -> tuple[Log, list[int]]:
    replay = Replay(
        disk,
        "wal",
        digest=DIGEST,
        entry_bytes_max=LIMIT,
        quarantine="quarantine",
        covered_seq=covered_seq,
    )
    found = [item.wal_seq for item, _ in replay]
    assert replay.damage == []
    return replay.finish(WalConfig(**config)), found


def names(disk: MemoryDisk) -> list[str]:
    return [entry.name for entry in disk.list_dir("wal")]


def syncs(disk: MemoryDisk) -> int:
    return sum(isinstance(op, Sync) for op in disk.history.ops)


@pytest.fixture
def writer() -> tuple[MemoryDisk, Writer]:
    disk = MemoryDisk()
    return disk, Writer(disk.create("file"), 1, 0)


def test_a_write_that_cannot_be_taken_back_poisons_the_writer(writer) -> None:
    disk, writer = writer
    writer.append([b"good"], last_seq=0)
    disk.fail(lambda op: isinstance(op, Write), error="short")
    disk.fail(lambda op: isinstance(op, Truncate))
    with pytest.raises(PoisonedError, match="middle of a write") as caught:
        writer.append([b"bad entry"], last_seq=0)
    assert isinstance(caught.value.__cause__, CapacityError)
    assert isinstance(writer.fault, StorageError)
    assert writer.end == 4
    for call in (writer.sync, lambda: writer.append([b"more"], last_seq=0)):
        with pytest.raises(PoisonedError) as refused:
            call()
        assert refused.value.__cause__ is writer.fault
    assert disk.open("file").read(0, 99) == b"goodbad "


def test_a_write_that_is_taken_back_changes_nothing(writer) -> None:
    disk, writer = writer
    disk.fail(lambda op: isinstance(op, Write), error="short")
    with pytest.raises(CapacityError):
        writer.append([b"bad entry"], last_seq=0)
    assert (writer.end, writer.fault, disk.open("file").size()) == (0, None, 0)
    assert writer.append([b"good"], last_seq=0) == Place(1, 4)


def test_whoever_waited_for_the_sync_of_another_finds_it_done(writer) -> None:
    disk, writer = writer
    writer.append([b"entry"], last_seq=0)

    class Overtaken:
        """A lock that is had only after another thread had it, and synced."""

        def __enter__(self) -> None:
            writer._sync_lock = threading.Lock()
            writer.sync()

        def __exit__(self, *_: object) -> None: ...

    writer._sync_lock = Overtaken()
    writer.sync()
    assert (writer.sync_count, syncs(disk)) == (1, 1)


def test_a_sync_that_is_interrupted_poisons_the_writer(writer) -> None:
    disk, writer = writer
    writer.append([b"entry"], last_seq=0)
    disk.fail(lambda op: isinstance(op, Sync), error="kill")
    with pytest.raises(Killed):
        writer.sync()
    with pytest.raises(PoisonedError):
        writer.sync()
    assert (writer.sync_count, syncs(disk)) == (0, 0)


def test_the_first_fault_is_the_one_that_is_told(writer) -> None:
    _, writer = writer
    first = StorageError("first")
    writer.poison(first)
    writer.poison(StorageError("second"))
    assert writer.fault is first


def test_a_rotation_that_found_no_room_is_tried_again_afresh() -> None:
    disk = MemoryDisk()
    log, _ = start(disk, rotate_size=1)
    log.append(bundle(0))
    disk.fail(lambda op: isinstance(op, Write), error="short")
    with pytest.raises(CapacityError):
        log.append(bundle(1))
    assert names(disk) == ["quiver.wal", "quiver.wal.tmp"]
    assert (log.fault, log.end, log.file_count) == (None, Place(1, start_of(1)), 1)
    log.append(bundle(1))
    assert names(disk) == ["quiver.wal", "quiver.wal.1"]
    log.sync_all()
    log.close()
    assert start(disk)[1] == [0, 1]


def test_a_place_in_a_rotated_file_is_durable_without_another_sync() -> None:
    disk = MemoryDisk()
    log, _ = start(disk, rotate_size=1)
    old, new = log.append(bundle(0)), log.append(bundle(1))
    assert (old.generation, new.generation) == (1, 2)
    before = syncs(disk)
    log.sync(old)
    assert (syncs(disk), log.sync_count) == (before, 0)
    log.sync(new)
    assert (syncs(disk), log.sync_count) == (before + 1, 1)


def test_without_holes_a_log_that_is_covered_whole_starts_a_new_file() -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    for seq in range(3):
        end = log.append(bundle(seq))
    log.truncate(end)
    assert names(disk) == ["quiver.wal", "truncate.offset"]
    assert log.truncated == Place(2, HEADER_BYTES)
    assert log.end == Place(2, HEADER_BYTES + CHECKPOINT_BYTES)
    assert log.live_bytes == 0
    assert disk.stat("wal/quiver.wal").size == HEADER_BYTES + CHECKPOINT_BYTES
    log.append(bundle(3))
    log.sync_all()
    log.close()
    assert start(disk, covered_seq=2)[1] == [3]


def test_without_holes_a_file_that_is_covered_for_the_lesser_part_is_kept() -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    places = [log.append(bundle(seq)) for seq in range(3)]
    log.truncate(places[0])
    assert log.truncated == places[0]
    assert (log.end, log.live_bytes) == (places[2], 2 * SIZE)
    assert not any(isinstance(op, Unlink) for op in disk.history.ops)


def test_without_holes_what_is_behind_a_covered_prefix_moves_to_a_file_of_its_own() -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    places = [log.append(bundle(seq)) for seq in range(5)]
    log.truncate(places[2])
    assert names(disk) == ["quiver.wal", "truncate.offset"]
    assert disk.stat("wal/quiver.wal").size == HEADER_BYTES + 2 * SIZE
    assert log.truncated == Place(2, HEADER_BYTES)
    assert (log.end, log.live_bytes) == (log.locate(places[4]), 2 * SIZE)
    log.append(bundle(5))
    log.truncate(places[3])
    assert log.truncated == log.locate(places[3]) == Place(2, HEADER_BYTES + SIZE)
    log.truncate(places[4])
    assert log.truncated == log.locate(places[4]) == Place(3, HEADER_BYTES)
    log.sync(places[4])
    log.sync_all()
    log.close()
    assert start(disk, covered_seq=4)[1] == [5]


def test_holes_are_asked_for_once_if_there_are_none() -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    asked = []
    writer = log._writer
    writer.punch = lambda start, end: asked.append((start, end)) is not None  # type: ignore[method-assign]
    places = [log.append(bundle(seq)) for seq in range(9)]
    log.truncate(places[0])
    log.truncate(places[1])
    assert len(asked) == 1
    assert log.truncated == places[1]


@pytest.mark.parametrize("act", range(12))
@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "kill"])
def test_a_rewrite_that_fails_anywhere_loses_nothing(act: int, error: FaultKind) -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    places = [log.append(bundle(seq)) for seq in range(5)]
    log.sync_all()
    disk.fail(disk.act_count + act, error=error, sticky=False)
    with contextlib.suppress(QuiverError, Killed):
        log.truncate(places[2])
    disk.heal()
    if log.fault is None and error != "kill":
        log.append(bundle(5))
        log.sync_all()
    log.close()
    log, found = start(disk, covered_seq=2)
    assert found[:2] == [3, 4]
    assert found[2:] in ([], [5])
    assert [name for name in names(disk) if name.startswith("quiver.wal")] == ["quiver.wal"]


def test_a_file_that_grew_and_was_never_filled_has_a_torn_tail() -> None:
    disk = MemoryDisk()
    log, _ = start(disk)
    for seq in range(2):
        log.append(bundle(seq))
    log.close()
    file = disk.open("wal/quiver.wal", writable=True)
    file.truncate(3 * WINDOW)
    *entries, tail = walk(file, HEADER_BYTES, entry_bytes_max=LIMIT)
    assert [(item.offset, item.end) for item in entries] == [
        (start_of(0), start_of(1)),
        (start_of(1), start_of(2)),
    ]
    assert isinstance(tail, Tail)
    assert (tail.offset, tail.end, tail.is_torn) == (start_of(2), 3 * WINDOW, True)


@pytest.mark.parametrize("before_border", [0, 1, 4, FRAME_MIN - 1, FRAME_MIN, SIZE - 1, SIZE])
def test_an_entry_behind_a_megabyte_of_junk_is_found_wherever_the_search_stands(
    place: Folder, before_border: int
) -> None:
    place.fill(1)
    junk = 1 + WINDOW - before_border  # The search starts one byte behind the entry that is bad.
    place.damage(append(b"\xff" * junk + encode_bundle(bundle(1))))
    file = place.disk.open("wal/quiver.wal")
    first, region, second, tail = walk(file, HEADER_BYTES, entry_bytes_max=LIMIT)
    file.close()
    assert isinstance(region, BadRegion)
    assert (region.offset, region.end) == (start_of(1), start_of(1) + junk)
    assert [item.frame.wal_seq for item in (first, second)] == [0, 1]
    assert tail == Tail(start_of(2) + junk, start_of(2) + junk, None, is_torn=False)


class ShrunkenFile(LocalFile):
    """A file that had more bytes when it was asked for its size than when it is read."""

    def size(self) -> int:
        return super().size() + SIZE


def test_a_file_that_shrinks_while_it_is_read_ends_torn(place: Folder) -> None:
    place.fill(2)
    place.damage(append(encode_bundle(bundle(2))[:20]))
    file = place.disk.open("wal/quiver.wal")
    shrunken = ShrunkenFile(file._descriptor, file.path, file._place)
    first, second, tail = walk(shrunken, HEADER_BYTES, entry_bytes_max=LIMIT)
    file.close()
    assert isinstance(first, Entry)
    assert second.end == start_of(2) == tail.offset
    assert tail.is_torn
    assert isinstance(tail.error, TornEntry)


def test_a_folder_with_the_name_of_the_file_that_the_sidecar_means_is_passed_over(
    place: Folder,
) -> None:
    place.fill(4, rotate_size=HEADER_BYTES + 2 * SIZE)
    (place.root / "wal/quiver.wal.7").mkdir()
    (place.root / "wal/truncate.offset").write_bytes(encode_sidecar(Place(7, HEADER_BYTES)))
    log, found = place.open(covered=0)
    assert found == [1, 2, 3]
    assert (log.end.generation, log.truncated) == (2, Place(1, HEADER_BYTES))
    log.close()


def test_a_sequence_that_goes_back_is_damage_that_names_both(place: Folder) -> None:
    place.fill(2)
    place.damage(append(encode_bundle(bundle(1)) + encode_bundle(bundle(2))))
    _, found = place.open()
    assert found == [0, 1, 2]
    assert place.replay is not None
    [error] = place.replay.damage
    assert isinstance(error, DamagedEntry)
    assert (error.offset, error.expected, error.found) == (start_of(2), "above 1", 1)


@pytest.mark.parametrize("kind", [Rename, SyncDir])
def test_a_rewrite_that_cannot_take_the_name_stops_the_log(kind: type) -> None:
    disk = MemoryDisk(punch_supported=False)
    log, _ = start(disk, reclaim_size=1)
    places = [log.append(bundle(seq)) for seq in range(5)]
    log.sync_all()
    renamed = []

    def strikes(op: Act) -> bool:
        renamed.append(isinstance(op, Rename) and op.name == "quiver.wal")
        return isinstance(op, kind) and any(renamed)

    disk.fail(strikes, error="EIO")
    with pytest.raises(StorageError):
        log.truncate(places[2])
    disk.heal()
    with pytest.raises(PoisonedError):
        log.append(bundle(5))
    log.close()
    assert start(disk, covered_seq=2)[1] == [3, 4]
