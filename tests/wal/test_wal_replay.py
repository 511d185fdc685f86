"""The replay of a log after a stop of any kind, and damage to any byte of it."""

from __future__ import annotations

import json

import pytest
from crc32c import crc32c
from wal_kit import LIMIT, SIZE, Folder, append, bundle, cut, flip, start_of

from quiver.config import WalConfig
from quiver.errors import DamagedEntry, TornEntry, VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.testing import MemoryDisk
from quiver.testing.acts import Rename, Sync
from quiver.wal import Place, Replay
from quiver.wal.format import HEADER_BYTES, encode_bundle, encode_header


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


def test_a_torn_tail_behind_a_damaged_header_is_cut_and_never_reported_as_damage(
    place: Folder,
) -> None:
    place.fill(3)
    place.damage(cut(start_of(2) + 9))
    place.damage(flip(3))
    for _ in range(2):
        log, found = place.open()
        log.close()
        assert found == [0, 1]
        assert [error.offset for error in place.replay.damage] == [0]


def test_a_file_is_synced_before_a_damaged_header_retires_it() -> None:
    disk = MemoryDisk()
    disk.make_dir("wal")
    file = disk.create("wal/quiver.wal")
    file.write(0, bytes(HEADER_BYTES) + encode_bundle(bundle(0)))
    file.close()
    replay = Replay(disk, "wal", digest=bytes(16), entry_bytes_max=LIMIT, quarantine="quarantine")
    assert [found.wal_seq for found, _ in replay] == [0]
    replay.finish(WalConfig()).close()
    acts = [type(op) for op in disk.history.ops if getattr(op, "inode", None) == file.inode]
    assert acts.index(Sync) < acts.index(Rename)


def test_an_unknown_entry_type_is_skipped_by_its_length(place: Folder) -> None:
    place.fill(2)
    alien = bytearray(encode_bundle(bundle(2)))
    alien[4] = 9
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


@pytest.mark.parametrize("length", [300, 512, 700])
def test_an_unfinished_entry_behind_a_hole_is_torn_whatever_its_length_begins_with(
    length: int,
) -> None:
    """Its length may begin with zeros, and nothing else says where the hole ends."""
    disk = MemoryDisk()
    disk.make_dir("wal")
    file = disk.create("wal/quiver.wal")
    entry = encode_bundle(bundle(5, length - len(encode_bundle(bundle(5, 0))) + 8))
    assert int.from_bytes(entry[:4], "little") == length
    file.write(0, encode_header(bytes(16)))
    file.write(2000, entry[:-10])
    file.close()
    replay = Replay(
        disk,
        "wal",
        digest=bytes(16),
        entry_bytes_max=LIMIT,
        covered_seq=4,
        quarantine="quarantine",
    )
    assert list(replay) == []
    assert replay.damage == []
    assert replay.torn is not None
    assert 1997 <= replay.torn.offset <= 2000
