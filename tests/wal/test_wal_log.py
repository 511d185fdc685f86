"""The log as files: rotate, truncate, caps, sidecar."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wal_kit import CHECKPOINT_BYTES, SIZE, Folder, append, bundle, cut, start_of

from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile
from quiver.errors import CapacityError, StorageError
from quiver.wal import Log, Place
from quiver.wal.format import HEADER_BYTES
from quiver.wal.sidecar import encode_sidecar
from quiver.wal.writer import Writer


def test_files_rotate_by_size_and_read_back_as_one_log(place: Folder) -> None:
    place.fill(7, rotate_size=HEADER_BYTES + 2 * SIZE)
    assert place.names() == ["quiver.wal", "quiver.wal.1", "quiver.wal.2", "quiver.wal.3"]
    log, found = place.open()
    assert found == list(range(7))
    assert log.end == Place(4, start_of(1, later=True))
    assert log.file_count == 4


def test_a_tiny_rotation_size_gives_one_entry_a_file(place: Folder) -> None:
    place.fill(3, rotate_size=1)
    assert place.names() == ["quiver.wal", "quiver.wal.1", "quiver.wal.2"]
    assert place.open()[1] == [0, 1, 2]


@pytest.mark.parametrize("covered_count", [3, 4], ids=["all but the last", "all"])
def test_others_use_the_log_while_a_rotated_file_is_deleted(
    place: Folder, covered_count: int
) -> None:
    log, _ = place.open(rotate_size=1)
    ends = []
    for number in range(4):
        log.append(bundle(number))
        ends.append(log.end)
    covered, turns = ends[covered_count - 1], itertools.count(4)

    @contextlib.contextmanager
    def apart() -> Iterator[None]:
        yield
        log.append(bundle(next(turns)))
        log.truncate(covered)

    log.truncate(covered, apart=apart)
    added = range(4, next(turns))
    assert added
    files = [name for name in place.names() if name.startswith("quiver.wal")]
    assert log.file_count == len(files) == len(added) + (covered_count == 3)
    log.close()
    assert place.open()[1] == [*range(covered_count, 4), *added]


def test_damage_at_the_end_of_a_rotated_file_does_not_hide_the_next_one(place: Folder) -> None:
    place.fill(5, rotate_size=HEADER_BYTES + 2 * SIZE)
    place.damage(cut(start_of(1) + 50), "quiver.wal.1")
    _, found = place.open()
    assert found == [0, 2, 3, 4]
    assert place.quarantine()[0] == f"wal-1-{start_of(1)}.bin"


def test_caps_refuse_before_anything_is_written(place: Folder) -> None:
    log, _ = place.open(max_size=2 * SIZE + 10)
    log.append(bundle(0))
    log.append(bundle(1))
    with pytest.raises(CapacityError, match=r"wal\.max_size"):
        log.append(bundle(2))
    assert log.end == Place(1, start_of(2))
    log.close()
    log, _ = place.open(rotate_size=1, max_chunks=2)
    log.append(bundle(2))
    with pytest.raises(CapacityError, match=r"wal\.max_chunks"):
        log.append(bundle(3))
    assert log.file_count == 2
    log.close()
    assert place.open()[1] == [0, 1, 2]


def test_truncating_past_a_rotated_file_deletes_it_and_frees_its_bytes(place: Folder) -> None:
    log, _ = place.open(rotate_size=HEADER_BYTES + 2 * SIZE)
    places = [log.append(bundle(seq)) for seq in range(5)]
    log.truncate(places[0])
    assert log.file_count == 3
    log.truncate(places[2])
    assert place.names() == ["quiver.wal", "quiver.wal.2", "truncate.offset"]
    assert log.live_bytes == 3 * SIZE + CHECKPOINT_BYTES
    log.truncate(places[4])
    assert place.names() == ["quiver.wal", "truncate.offset"]
    assert log.live_bytes == 0


def test_truncation_never_goes_back(place: Folder) -> None:
    log, _ = place.open()
    places = [log.append(bundle(seq)) for seq in range(3)]
    log.truncate(places[2])
    log.truncate(places[0])
    assert log.truncated == places[2]


def test_a_covered_prefix_is_given_back_to_the_disk(place: Folder) -> None:
    log, _ = place.open(reclaim_size=1)
    for seq in range(2000):
        end = log.append(bundle(seq))
    log.sync_all()
    before = (place.root / "wal/quiver.wal").stat()
    log.truncate(end)
    after = (place.root / "wal/quiver.wal").stat()
    assert after.st_size == before.st_size
    assert after.st_blocks < before.st_blocks / 4
    log.append(bundle(2000))
    log.close()
    assert place.open(covered=1999)[1] == [2000]


def given_back_in_bits(
    place: Folder,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Log, int], None],
    *,
    is_before: bool = False,
    **config: int,
) -> tuple[list[int], list[tuple[int, int]]]:
    """Truncate 300 entries; ``act`` comes behind each bit, or before it.

    Gives what is read then, and the bits.
    """
    log, _ = place.open(reclaim_size=8192, **config)
    for seq in range(300):
        end = log.append(bundle(seq))
    log.sync_all()
    bits = []
    real = LocalFile.punch

    def punch(file: LocalFile, offset: int, length: int) -> bool:
        bits.append((offset, length))
        return real(file, offset, length)

    monkeypatch.setattr(LocalFile, "punch", punch)

    @contextlib.contextmanager
    def apart() -> Iterator[None]:
        if is_before:
            act(log, 300 + len(bits))
        yield
        if not is_before:
            act(log, 299 + len(bits))

    log.truncate(end, apart=apart)
    assert log.truncated >= end
    log.close()
    return place.open(covered=299)[1], bits


def test_others_append_while_a_prefix_is_given_back(place: Folder, monkeypatch) -> None:
    def act(log: Log, seq: int) -> None:
        log.append(bundle(seq))
        log.sync_all()

    found, bits = given_back_in_bits(place, monkeypatch, act)
    assert found == list(range(300, 300 + len(bits)))
    assert len(bits) > 5
    assert {offset for offset, _ in bits} == {HEADER_BYTES}
    ends = [sum(bit) for bit in bits]
    assert ends[-1] == start_of(300)
    assert all((end - HEADER_BYTES) % SIZE == 0 for end in ends), "an entry is left in half"
    steps = [later - end for end, later in itertools.pairwise([HEADER_BYTES, *ends])]
    assert all(8192 <= step < 8192 + SIZE for step in steps[:-1])
    assert (place.root / "wal/quiver.wal").stat().st_blocks * 512 <= 3 * 4096


@pytest.mark.parametrize("is_before", [False, True])
def test_a_file_that_others_rotated_away_meanwhile_is_left_alone(
    place: Folder, monkeypatch: pytest.MonkeyPatch, *, is_before: bool
) -> None:
    def act(log: Log, seq: int) -> None:
        if seq == 302:
            log.append(bundle(300))

    found, bits = given_back_in_bits(
        place, monkeypatch, act, is_before=is_before, rotate_size=start_of(300)
    )
    assert len(bits) == 3 - is_before
    assert found == [300]
    assert place.names() == ["quiver.wal", "truncate.offset"]


def test_others_give_it_back_at_the_same_time(place: Folder, monkeypatch) -> None:
    def act(log: Log, seq: int) -> None:
        if seq == 302:
            log.truncate(log.end)

    found, bits = given_back_in_bits(place, monkeypatch, act)
    assert found == []
    assert max(sum(bit) for bit in bits) == start_of(300)
    assert len(set(bits)) == len(bits)


def test_no_hole_is_punched_into_what_has_the_descriptor_of_a_closed_file(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    writer = Writer(disk.create("first"), 1, 0)
    writer.append([bytes(8192)], last_seq=0)
    writer.close()
    other = disk.create("second")
    other.write(0, b"x" * 8192)
    assert writer.punch(0, 8192)
    assert other.read(0, 8192) == b"x" * 8192


def test_a_file_that_is_closed_while_a_hole_is_punched_stays_open_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(tmp_path)
    file = disk.create("first")
    writer = Writer(file, 1, 0)
    writer.append([b"x" * 8192], last_seq=0)
    real = LocalFile.punch

    def punch(file: LocalFile, offset: int, length: int) -> bool:
        if writer.punch(0, 10):  # A signal's handler may come in between.
            writer.close()
        return real(file, offset, length)

    acts = iter([punch])

    def act(file: LocalFile, offset: int, length: int) -> bool:
        return next(acts, real)(file, offset, length)

    monkeypatch.setattr(LocalFile, "punch", act)
    assert writer.punch(0, 4096)
    with pytest.raises(StorageError):
        file.size()
    assert (tmp_path / "first").read_bytes() == bytes(4096) + b"x" * 4096


@pytest.mark.parametrize("sidecar", ["lost", "damaged", "stale", "future", "kept"])
def test_no_state_of_the_sidecar_costs_data(place: Folder, sidecar: str) -> None:
    log, _ = place.open(reclaim_size=1)
    places = [log.append(bundle(seq)) for seq in range(300)]
    log.truncate(places[99])
    old = (place.root / "wal/truncate.offset").read_bytes()
    log.truncate(places[199])
    log.close()
    path = place.root / "wal/truncate.offset"
    if sidecar == "lost":
        path.unlink()
    elif sidecar == "damaged":
        path.write_bytes(b"\xff" * 32)
    elif sidecar == "stale":
        path.write_bytes(old)
    elif sidecar == "future":
        path.write_bytes(encode_sidecar(Place(1, 10**9)))
    log, found = place.open(covered=199)
    assert found == list(range(200, 300))
    log.append(bundle(300))
    log.close()
    assert place.open(covered=199)[1] == list(range(200, 301))


def test_a_sidecar_of_a_later_place_in_another_life_skips_nothing(place: Folder) -> None:
    """A power cut may take entries that were never synced although the sidecar survives."""
    log, _ = place.open()
    places = [log.append(bundle(seq)) for seq in range(10)]
    log.truncate(places[9])
    log.close()
    place.damage(cut(start_of(4)))
    log, found = place.open(covered=9)
    assert found == []
    assert place.replay is not None
    for seq in range(10, 30):
        log.append(bundle(seq))
    log.close()
    assert place.open(covered=9)[1] == list(range(10, 30))


def test_a_hint_from_a_segment_is_used_when_the_sidecar_is_lost(place: Folder) -> None:
    places = place.fill(10)
    log, found = place.open(covered=6, hint=places[6])
    assert found == [7, 8, 9]
    assert log.truncated == places[6]
    assert place.replay is not None
    assert place.replay.skipped_bundles == 0


def test_leftovers_of_a_crash_are_removed(place: Folder) -> None:
    place.fill(1)
    for name in ("quiver.wal.tmp", "truncate.offset.tmp"):
        (place.root / "wal" / name).write_bytes(b"half")
    assert place.open()[1] == [0]
    assert place.names() == ["quiver.wal"]


def test_a_crash_between_the_renames_of_a_rotation_loses_nothing(place: Folder) -> None:
    place.fill(3)
    (place.root / "wal/quiver.wal").rename(place.root / "wal/quiver.wal.1")
    (place.root / "wal/quiver.wal.tmp").write_bytes(b"QUIVER")
    log, found = place.open()
    assert found == [0, 1, 2]
    assert log.append(bundle(3)) == Place(2, start_of(1, later=True))
    log.close()
    assert place.open()[1] == [0, 1, 2, 3]


def test_gaps_in_the_numbers_of_rotated_files_are_no_fault(place: Folder) -> None:
    place.fill(6, rotate_size=HEADER_BYTES + SIZE)
    (place.root / "wal/quiver.wal.2").unlink()
    log, found = place.open()
    assert found == [0, 2, 3, 4, 5]
    assert log.end.generation == 6


def test_opening_changes_no_byte_of_a_sound_log(place: Folder) -> None:
    place.fill(5, rotate_size=HEADER_BYTES + 2 * SIZE)
    before = {name: (place.root / "wal" / name).read_bytes() for name in place.names()}
    place.open()[0].close()
    assert {name: (place.root / "wal" / name).read_bytes() for name in place.names()} == before


def test_resync_over_hostile_bytes_stays_linear(place: Folder) -> None:
    """Bytes that look like the start of an entry everywhere must not cost a checksum each."""
    place.fill(2)
    bait = (SIZE * 50).to_bytes(4, "little") + bytes(21)
    place.damage(append(bait * 4000))
    _, found = place.open()
    assert found == [0, 1]
