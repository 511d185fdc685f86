"""The log as files: append, rotate, truncate, and the replay after a stop of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from quiver.config import WalConfig
from quiver.disk import LocalDisk
from quiver.errors import CapacityError, DamagedEntry, TornEntry, VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.wal import Log, Place, Replay, encoded_bytes
from quiver.wal.format import HEADER_BYTES, encode_bundle

DIGEST = b"layout of a test"
LIMIT = 1 << 20
SIZE = encoded_bytes(EncodedBundle(0, 0, (Payload(0, 0, bytes(32), 1, bytes(100)),)))

Damage = Callable[[bytearray], None]


def bundle(seq: int, size: int = 100) -> EncodedBundle:
    data = bytes((seq + i) % 251 for i in range(size))
    return EncodedBundle(seq, 1000 + seq, (Payload(0, 0, bytes(32), 1, data),))


class Folder:
    """A WAL folder that can be opened again and again, as after crashes."""

    def __init__(self, root: Path) -> None:
        self.disk = LocalDisk(root, create=True)
        self.root = root
        self.replay: Replay | None = None

    def open(
        self, covered: int | None = None, *, hint: Place | None = None, **config: int
    ) -> tuple[Log, list[int]]:
        self.replay = Replay(
            self.disk,
            "wal",
            digest=DIGEST,
            entry_bytes_max=LIMIT,
            covered_seq=covered,
            hint=hint,
            quarantine="quarantine",
        )
        found = []
        for item, _ in self.replay:
            assert bytes(item.payloads[0].data) == bundle(item.wal_seq).payloads[0].data
            found.append(item.wal_seq)
        return self.replay.finish(WalConfig(**config)), found

    def fill(self, count: int, **config: int) -> list[Place]:
        log, _ = self.open(**config)
        places = [log.append(bundle(seq)) for seq in range(count)]
        log.sync_all()
        log.close()
        return places

    def damage(self, act: Damage, name: str = "quiver.wal") -> None:
        path = self.root / "wal" / name
        data = bytearray(path.read_bytes())
        act(data)
        path.write_bytes(data)

    def names(self) -> list[str]:
        return sorted(p.name for p in (self.root / "wal").iterdir())

    def quarantine(self) -> list[str]:
        folder = self.root / "quarantine"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def flip(offset: int) -> Damage:
    def act(data: bytearray) -> None:
        data[offset] ^= 0xFF

    return act


def cut(length: int) -> Damage:
    def act(data: bytearray) -> None:
        del data[length:]

    return act


def append(extra: bytes) -> Damage:
    def act(data: bytearray) -> None:
        data += extra

    return act


def start_of(seq: int) -> int:
    return HEADER_BYTES + seq * SIZE


def test_an_empty_folder_gives_an_empty_log(place: Folder) -> None:
    log, found = place.open()
    assert (found, log.end, place.names()) == ([], Place(1, 30), ["quiver.wal"])


def test_bundles_come_back_in_order_after_a_stop(place: Folder) -> None:
    place.fill(5)
    log, found = place.open()
    assert found == [0, 1, 2, 3, 4]
    assert place.replay is not None
    assert place.replay.last_seq == 4
    assert log.end == Place(1, start_of(5))


def test_covered_bundles_are_skipped(place: Folder) -> None:
    place.fill(5)
    _, found = place.open(covered=2)
    assert found == [3, 4]
    assert place.replay is not None
    assert place.replay.skipped_bundles == 3


def test_another_layout_is_refused_and_nothing_changes(place: Folder) -> None:
    place.fill(2)
    before = (place.root / "wal/quiver.wal").read_bytes()
    with pytest.raises(VersionError):
        list(
            Replay(
                place.disk,
                "wal",
                digest=bytes(16),
                entry_bytes_max=LIMIT,
                quarantine="quarantine",
            )
        )
    assert (place.root / "wal/quiver.wal").read_bytes() == before


@pytest.mark.parametrize("keep", range(1, SIZE))
def test_a_file_cut_inside_its_last_entry_keeps_the_ones_before(place: Folder, keep: int) -> None:
    place.fill(3)
    place.damage(cut(start_of(2) + keep))
    log, found = place.open()
    assert found == [0, 1]
    assert place.replay is not None
    assert isinstance(place.replay.torn, TornEntry)
    assert place.replay.damage == []
    assert place.quarantine() == []
    log.append(bundle(2))
    log.close()
    assert place.open()[1] == [0, 1, 2]


def test_zeros_behind_the_last_entry_are_a_torn_tail(place: Folder) -> None:
    place.fill(3)
    place.damage(append(bytes(5000)))
    log, found = place.open()
    assert (found, place.quarantine()) == ([0, 1, 2], [])
    log.append(bundle(3))
    log.close()
    assert place.open()[1] == [0, 1, 2, 3]


def test_garbage_behind_the_last_entry_is_kept_aside_before_it_is_cut(place: Folder) -> None:
    place.fill(3)
    place.damage(append(b"\x21\0\0\0" + b"garbage" * 20))
    _, found = place.open()
    assert found == [0, 1, 2]
    name = f"wal-1-{start_of(3)}.bin"
    assert place.quarantine() == [name, f"{name}.json"]
    assert (place.root / "quarantine" / name).read_bytes().endswith(b"garbage")
    reason = json.loads((place.root / "quarantine" / f"{name}.json").read_text())
    assert reason["offset"] == start_of(3)
    assert reason["path"].endswith("wal/quiver.wal")
    assert place.open()[1] == [0, 1, 2]


def test_a_damaged_entry_costs_itself_and_nothing_else(place: Folder) -> None:
    place.fill(5)
    place.damage(flip(start_of(2) + 90))
    _, found = place.open()
    assert found == [0, 1, 3, 4]
    assert place.replay is not None
    (error,) = place.replay.damage
    assert isinstance(error, DamagedEntry)
    assert error.offset == start_of(2)
    assert error.path == str(place.root / "wal/quiver.wal")
    assert place.quarantine()[0] == f"wal-1-{start_of(2)}.bin"


def test_the_same_damage_is_set_aside_once(place: Folder) -> None:
    place.fill(5)
    place.damage(flip(start_of(2) + 90))
    place.open()[0].close()
    before = place.quarantine()
    place.open()[0].close()
    assert place.quarantine() == before


def test_a_flip_of_any_byte_of_a_file_loses_one_entry_at_most(place: Folder) -> None:
    place.fill(4)
    path = place.root / "wal/quiver.wal"
    whole = path.read_bytes()
    for offset in range(len(whole)):
        for name in place.names():
            (place.root / "wal" / name).unlink()
        path.write_bytes(whole)
        place.damage(flip(offset))
        log, found = place.open()
        log.close()
        expected = set(range(4))
        hit = (offset - HEADER_BYTES) // SIZE
        missing = expected - set(found)
        assert missing <= {hit}, f"byte {offset} lost {missing}"
        assert place.replay is not None
        noticed = place.replay.damage or place.replay.torn
        assert noticed, f"byte {offset} was not noticed"
        if offset < HEADER_BYTES or offset < start_of(hit) + 4:
            assert not missing


def test_a_damaged_header_retires_its_file_and_appends_go_to_a_sound_one(place: Folder) -> None:
    place.fill(3)
    place.damage(flip(3))
    log, found = place.open()
    assert found == [0, 1, 2]
    log.append(bundle(3))
    log.close()
    assert place.names() == ["quiver.wal", "quiver.wal.1"]
    assert place.open()[1] == [0, 1, 2, 3]


def test_an_unknown_entry_type_is_skipped_by_its_length(place: Folder) -> None:
    place.fill(2)
    alien = bytearray(encode_bundle(bundle(2)))
    alien[4] = 9
    from crc32c import crc32c

    alien[-4:] = crc32c(bytes(alien[4:-4])).to_bytes(4, "little")
    place.damage(append(bytes(alien) + encode_bundle(bundle(3))))
    _, found = place.open()
    assert found == [0, 1, 3]
    assert place.replay is not None
    assert place.replay.damage == []


def test_a_sequence_that_goes_back_is_damage(place: Folder) -> None:
    place.fill(3)
    place.damage(append(encode_bundle(bundle(1)) + encode_bundle(bundle(3))))
    _, found = place.open()
    assert found == [0, 1, 2, 3]
    assert place.replay is not None
    assert len(place.replay.damage) == 1


def test_an_entry_inside_a_damaged_payload_is_not_taken_for_one_of_ours(place: Folder) -> None:
    log, _ = place.open()
    inner = encode_bundle(bundle(50))
    log.append(EncodedBundle(0, 0, (Payload(0, 0, bytes(32), 1, inner),)))
    log.append(bundle(1))
    log.close()
    place.damage(flip(HEADER_BYTES + 10))
    assert place.open()[1] == [1]


def test_files_rotate_by_size_and_read_back_as_one_log(place: Folder) -> None:
    place.fill(7, rotate_size=HEADER_BYTES + 2 * SIZE)
    assert place.names() == ["quiver.wal", "quiver.wal.1", "quiver.wal.2", "quiver.wal.3"]
    log, found = place.open()
    assert found == list(range(7))
    assert log.end == Place(4, start_of(1))
    assert log.file_count == 4


def test_a_tiny_rotation_size_gives_one_entry_a_file(place: Folder) -> None:
    place.fill(3, rotate_size=1)
    assert place.names() == ["quiver.wal", "quiver.wal.1", "quiver.wal.2"]
    assert place.open()[1] == [0, 1, 2]


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
    assert log.live_bytes == 3 * SIZE
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
        from quiver.wal.format import encode_sidecar

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
    assert log.append(bundle(3)) == Place(2, start_of(1))
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
