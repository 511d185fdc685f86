"""What is missing is told although nothing is damaged there, and no number is given twice."""

from __future__ import annotations

import pytest
from wal_kit import LIMIT, SIZE, Folder, append, bundle, cut, flip, start_of

from quiver.errors import DamagedEntry, DamageError
from quiver.wal import Replay
from quiver.wal.format import BUNDLE_BYTES_MIN, HEADER_BYTES, encode_bundle

TWO_IN_A_FILE = HEADER_BYTES + 2 * SIZE
SIDECAR = "wal/truncate.offset"


def opened(place: Folder, covered: int | None = None) -> tuple[list[int], Replay]:
    log, found = place.open(covered)
    log.close()
    assert place.replay is not None
    return found, place.replay


def told(place: Folder, error: DamageError) -> tuple[str, int, object, object]:
    return error.path.removeprefix(f"{place.root}/"), error.offset, error.expected, error.found


def test_a_rotated_file_that_is_gone_is_told_by_the_entry_behind_it(place: Folder) -> None:
    place.fill(6, rotate_size=TWO_IN_A_FILE)
    (place.root / "wal/quiver.wal.2").unlink()
    found, replay = opened(place)
    assert (found, replay.last_seq) == ([0, 1, 4, 5], 5)
    [error] = replay.damage
    assert isinstance(error, DamagedEntry)
    assert "2 bundles are missing from the log" in str(error)
    assert told(place, error) == ("wal/quiver.wal", start_of(0), "wal_seq 2", 4)


def test_a_rotated_file_that_ends_between_two_entries_is_told(place: Folder) -> None:
    place.fill(4, rotate_size=TWO_IN_A_FILE)
    place.damage(cut(start_of(1)), "quiver.wal.1")
    found, replay = opened(place)
    assert found == [0, 2, 3]
    assert [told(place, e)[2:] for e in replay.damage] == [("wal_seq 1", 2)]


@pytest.mark.parametrize(
    "covered, missing",
    [(None, "wal_seq 0"), (0, "wal_seq 1"), (1, None), (2, None), (3, None), (9, None)],
)
def test_what_segments_hold_need_not_be_in_the_log(place: Folder, covered, missing) -> None:
    place.fill(4, rotate_size=TWO_IN_A_FILE)
    (place.root / "wal/quiver.wal.1").unlink()
    found, replay = opened(place, covered)
    least = 2 if covered is None else max(2, covered + 1)
    assert found == list(range(least, 4))
    assert [e.expected for e in replay.damage] == ([missing] if missing else [])


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_a_gap_that_damage_explains_is_not_told_a_second_time(place: Folder, victim: int) -> None:
    place.fill(4)
    place.damage(flip(start_of(victim) + 60))
    found, replay = opened(place)
    assert found == [seq for seq in range(4) if seq != victim]
    assert [error.offset for error in replay.damage] == [start_of(victim)]


def test_after_damage_a_later_gap_is_told_again(place: Folder) -> None:
    place.fill(6, rotate_size=TWO_IN_A_FILE)
    place.damage(flip(start_of(0) + 60), "quiver.wal.1")
    (place.root / "wal/quiver.wal.2").unlink()
    found, replay = opened(place)
    assert found == [1, 4, 5]
    assert [told(place, error)[:2] for error in replay.damage] == [
        ("wal/quiver.wal.1", start_of(0)),
        ("wal/quiver.wal", start_of(0)),
    ]


def test_the_numbers_of_entries_that_cannot_be_read_stay_used_up(place: Folder) -> None:
    place.fill(4)
    place.damage(flip(start_of(3) + 60))
    found, replay = opened(place)
    assert found == [0, 1, 2]
    assert replay.last_seq == 2 + SIZE // BUNDLE_BYTES_MIN


def test_the_least_of_damage_may_have_been_one_entry(place: Folder) -> None:
    place.fill(1)
    place.damage(append(b"\xff" * (BUNDLE_BYTES_MIN - 1)))
    found, replay = opened(place)
    assert (found, replay.last_seq) == ([0], 1)


def test_numbers_behind_damage_count_from_the_entry_that_can_be_read(place: Folder) -> None:
    place.fill(3)
    place.damage(flip(start_of(1) + 60))
    found, replay = opened(place)
    assert (found, replay.last_seq) == ([0, 2], 2)


def test_a_file_with_a_damaged_end_is_kept_whole_and_never_appended_to(place: Folder) -> None:
    place.fill(2)
    place.damage(append(b"\xff" * 500))
    data = (place.root / "wal/quiver.wal").read_bytes()
    log, found = place.open()
    assert found == [0, 1]
    assert place.replay is not None
    after = place.replay.last_seq + 1
    log.append(bundle(after))
    assert log.live_bytes == len(data) - HEADER_BYTES + SIZE
    log.close()
    assert (place.root / "wal/quiver.wal.1").read_bytes() == data
    assert opened(place)[0] == [0, 1, after]
    assert place.quarantine() == [f"wal-1-{start_of(2)}.bin", f"wal-1-{start_of(2)}.bin.json"]


@pytest.mark.parametrize("data", [b"", b"\xff" * 31, b"\xff" * 32, b"\xff" * 4096])
def test_a_damaged_sidecar_is_told_once_and_set_aside(place: Folder, data: bytes) -> None:
    place.fill(3)
    (place.root / SIDECAR).write_bytes(data)
    found, replay = opened(place)
    assert found == [0, 1, 2]
    assert [told(place, error)[0] for error in replay.damage] == [SIDECAR]
    assert not (place.root / SIDECAR).exists()
    kept = [name for name in place.quarantine() if not name.endswith(".json")]
    assert [(place.root / "quarantine" / name).read_bytes() for name in kept] == [data]
    assert opened(place)[1].damage == []


def test_two_sidecars_that_are_damaged_in_two_ways_are_both_kept(place: Folder) -> None:
    place.fill(1)
    for data in (b"\xff" * 32, b"\xee" * 32):
        (place.root / SIDECAR).write_bytes(data)
        opened(place)
    kept = [name for name in place.quarantine() if not name.endswith(".json")]
    folder = place.root / "quarantine"
    assert sorted((folder / name).read_bytes() for name in kept) == [b"\xee" * 32, b"\xff" * 32]


def test_an_entry_larger_than_the_limit_is_damage_and_uses_its_numbers_up(place: Folder) -> None:
    place.fill(1)
    large = encode_bundle(bundle(1, LIMIT + 1))
    place.damage(append(large + encode_bundle(bundle(2))))
    found, replay = opened(place)
    assert (found, replay.last_seq) == ([0, 2], 2)
    assert [error.offset for error in replay.damage] == [start_of(1)]
