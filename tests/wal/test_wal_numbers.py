"""No number above the greatest is believed, wherever it stands in the log, and none is given."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from reuse_kit import bytes_of, gone_round, opened, with_bytes
from wal_kit import DIGEST, LIMIT, SIZE, Folder, append, bundle, flip, start_of

from quiver.payload import SEQ_MAX, EncodedBundle
from quiver.stored_run import StoredRun
from quiver.testing import MemoryDisk
from quiver.wal.format import (
    Place,
    encode_bundle,
    encode_checkpoint,
    encode_header,
)
from quiver.wal.reader import Entry, sweep, walk
from quiver.wal.reuse import encode_mark, mark_in, mask_of
from quiver.wal.sweep import sweep_view

TOO_GREAT = [SEQ_MAX + 1, SEQ_MAX + 2, 2**64 - 2, 2**64 - 1]
KINDS = ["bundle", "noted", "checkpoint"]


def late(seq: int, note: bytes | None = None) -> EncodedBundle:
    """Give a bundle whose time does not grow with its number."""
    return bundle(seq)._replace(ingestion_ns=5, note=note)


def entry(kind: str, seq: int) -> bytes:
    if kind == "checkpoint":
        return encode_checkpoint(seq, Place(1, 30))
    return encode_bundle(late(seq, b"note" if kind == "noted" else None))


def log_of(*entries: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("wal")
    file = disk.create("wal/quiver.wal")
    file.write(0, encode_header(DIGEST) + b"".join(entries))
    file.close()
    return disk


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seq", TOO_GREAT)
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("behind", [0, 2])
def test_a_log_with_such_an_entry_is_read_and_goes_on(
    kind: str, seq: int, before: int, behind: int, place: Folder
) -> None:
    count = before + behind
    place.fill(before)
    forged = entry(kind, seq)
    place.damage(append(forged + b"".join(encode_bundle(bundle(n)) for n in range(before, count))))
    log, found = place.open()
    assert place.replay is not None
    assert found == list(range(count))
    [error] = place.replay.damage
    assert (error.offset, error.found) == (start_of(before), seq)
    assert place.quarantine() == [
        f"wal-1-{start_of(before)}.bin",
        f"wal-1-{start_of(before)}.bin.json",
    ]
    assert place.replay.last_seq <= count + len(forged) // 75
    fresh = place.replay.last_seq + 1
    log.append(bundle(fresh))
    log.sync_all()
    log.close()
    log, found = place.open()
    assert found == [*range(count), fresh]
    log.close()


@pytest.mark.parametrize("rotate_size", [1 << 20, 30 + SIZE])
def test_numbers_go_up_to_the_greatest_and_a_new_file_can_say_so(
    rotate_size: int, place: Folder
) -> None:
    (place.root / "wal").mkdir()
    (place.root / "wal/quiver.wal").write_bytes(
        encode_header(DIGEST) + entry("bundle", SEQ_MAX - 1)
    )
    log, found = place.open(rotate_size=rotate_size)
    assert found == [SEQ_MAX - 1]
    log.append(late(SEQ_MAX))
    log.sync_all()
    log.close()
    log, found = place.open(rotate_size=rotate_size)
    assert (found, place.replay and place.replay.last_seq) == ([SEQ_MAX - 1, SEQ_MAX], SEQ_MAX)
    log.close()


def test_damage_uses_up_no_number_above_the_greatest(place: Folder) -> None:
    place.fill(0)
    place.damage(append(entry("bundle", SEQ_MAX - 1) + entry("bundle", SEQ_MAX) * 3))
    place.damage(flip(start_of(2) + 60))
    log, _ = place.open()
    assert place.replay is not None
    assert place.replay.last_seq == SEQ_MAX
    assert place.replay.lost_seqs == (0, 0)
    log.close()
    log, found = place.open(covered=SEQ_MAX - 1)
    assert found == [SEQ_MAX]
    log.close()


@pytest.mark.parametrize("first", [SEQ_MAX - 4, SEQ_MAX - 2, SEQ_MAX - 1, SEQ_MAX, SEQ_MAX + 1])
def test_many_entries_at_once_end_where_single_ones_do(first: int) -> None:
    seqs = [first + n for n in range(6) if first + n < 2**64]
    disk = log_of(*(entry("bundle", seq) for seq in seqs))
    good = [seq for seq in seqs if seq <= SEQ_MAX]
    with_runs: list[int] = []
    file = disk.open("wal/quiver.wal")
    for item in sweep(file, 30, entry_bytes_max=LIMIT, last_seq=-1, is_active=True, generation=1):
        if isinstance(item, StoredRun):
            with_runs += [stored.wal_seq for stored in item.bundles()]
        elif isinstance(item, Entry):
            with_runs.append(item.frame.wal_seq)
    alone = [
        item.frame.wal_seq
        for item in walk(file, 30, entry_bytes_max=LIMIT)
        if isinstance(item, Entry)
    ]
    assert with_runs == alone == good
    file.close()


@pytest.mark.parametrize("last_seq", [SEQ_MAX, SEQ_MAX + 5])
def test_nothing_follows_the_greatest_number(last_seq: int) -> None:
    data = entry("bundle", last_seq + 1) + entry("bundle", last_seq + 2)
    run, end = sweep_view(memoryview(data), 0, base=0, last_seq=last_seq, limit=LIMIT, generation=1)
    assert (run, end) == (None, 0)


@pytest.mark.parametrize("seq", [SEQ_MAX, *TOO_GREAT])
def test_a_mark_of_such_a_number_says_nothing(seq: int) -> None:
    mask = mask_of(3)
    assert mark_in(encode_mark(seq, mask), mask) == (seq if seq == SEQ_MAX else None)


def test_a_file_used_before_with_such_a_mark_is_read_and_goes_on() -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    end, generation = log.end.offset, log.end.generation
    log.close()
    data = bytes_of(disk)
    data[end : end + 20] = encode_mark(2**64 - 1, mask_of(generation))
    log, found, replay = opened(with_bytes(disk, bytes(data)), covered=10)
    assert (found, replay.damage, replay.last_seq) == ([11], [], 11)
    assert log.append(bundle(12)).generation == generation
    log.close()


@pytest.mark.parametrize("seq", TOO_GREAT)
def test_a_file_that_begins_with_such_a_number_is_read_and_goes_on(seq: int) -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    mask = mask_of(log.end.generation)
    log.close()
    data = bytes_of(disk)
    for start in (30, 87):
        struct.pack_into("<Q", data, start + 13, seq)
        struct.pack_into("<I", data, start + 53, crc32c(bytes(data[start + 4 : start + 53])) ^ mask)
    log, found, replay = opened(with_bytes(disk, bytes(data)), covered=10)
    assert found == [11]
    assert [error.found for error in replay.damage] == [seq]
    assert log.append(bundle(replay.last_seq + 1)).offset > 0
    log.close()
