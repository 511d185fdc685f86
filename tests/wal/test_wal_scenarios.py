"""Places of the log, whoever wrote them down; headers and entries of a later Quiver; odd starts."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from wal_kit import (
    CHECKPOINT_BYTES,
    DIGEST,
    LIMIT,
    SIZE,
    Folder,
    append,
    bundle,
    replay_of,
    start_of,
)

from quiver.config import WalConfig
from quiver.disk import replace
from quiver.disk.local_file import LocalFile
from quiver.errors import VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.testing import MemoryDisk
from quiver.testing.acts import Rename
from quiver.testing.recorder import Killed
from quiver.wal import Log, Place
from quiver.wal.format import (
    HEADER_BYTES,
    LENGTH,
    encode_bundle,
    encode_header,
)
from quiver.wal.reader import Entry, Tail, walk
from quiver.wal.sidecar import decode_sidecar, encode_sidecar

SIDECAR = "wal/truncate.offset"
TWO_IN_A_FILE = HEADER_BYTES + 2 * SIZE


def sound(place: Folder, covered: int | None = None, **config: int) -> tuple[Log, list[int]]:
    """Open a log that nothing is wrong with."""
    log, found = place.open(covered, **config)
    assert place.replay is not None
    assert (place.replay.damage, place.replay.torn) == ([], None)
    return log, found


def alien(seq: int, *, entry_type: int = 9, body: bytes = b"", bitmap: int = 2**64 - 1) -> bytes:
    """Make an entry of a type that only a later Quiver knows."""
    head = struct.pack("<BqQQ", entry_type, -7, seq, bitmap) + body
    return LENGTH.pack(len(head)) + head + LENGTH.pack(crc32c(head))


# Places go on, whatever was purged.


@pytest.mark.parametrize("rotate_size", [1, TWO_IN_A_FILE, 1 << 20])
def test_places_go_on_over_many_rounds_of_purging_and_reopening(
    place: Folder, rotate_size: int
) -> None:
    last, seq = Place(1, HEADER_BYTES), 0
    for _ in range(12):
        log, found = sound(place, covered=seq - 1 if seq else None, rotate_size=rotate_size)
        assert found == []
        assert log.end == last
        for _ in range(5):
            end = log.append(bundle(seq))
            same_file = end.generation == last.generation
            begin = last.offset if same_file else HEADER_BYTES + CHECKPOINT_BYTES
            assert end == Place(last.generation + (not same_file), begin + SIZE)
            last, seq = end, seq + 1
        log.truncate(last)
        assert (log.truncated, log.live_bytes, log.file_count) == (last, 0, 1)
        assert place.names() == ["quiver.wal", "truncate.offset"]
        log.close()
    assert (last.generation > 1) == (rotate_size < 1 << 20)


def test_generations_go_on_in_names_although_no_older_file_is_left(place: Folder) -> None:
    log, _ = sound(place, rotate_size=1)
    places = [log.append(bundle(seq)) for seq in range(4)]
    log.truncate(places[3])
    log.close()
    log, _ = sound(place, covered=3, rotate_size=1)
    log.append(bundle(4))
    log.append(bundle(5))
    log.close()
    assert place.names() == ["quiver.wal", "quiver.wal.4", "quiver.wal.5", "truncate.offset"]
    assert sound(place, covered=3)[1] == [4, 5]


def test_a_log_of_rotated_files_alone_is_read_and_goes_on(place: Folder) -> None:
    place.fill(5, rotate_size=TWO_IN_A_FILE)
    (place.root / "wal/quiver.wal").rename(place.root / "wal/quiver.wal.3")
    log, found = sound(place)
    assert found == [0, 1, 2, 3, 4]
    assert log.append(bundle(5)) == Place(4, start_of(1, later=True))
    log.close()
    assert sound(place)[1] == [0, 1, 2, 3, 4, 5]


# What the sidecar says.


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_a_place_in_a_rotated_file_keeps_it_and_what_is_behind(place: Folder, index: int) -> None:
    log, _ = sound(place, rotate_size=TWO_IN_A_FILE)
    places = [log.append(bundle(seq)) for seq in range(6)]
    log.truncate(places[index])
    behind = Place(places[index].generation + 1, HEADER_BYTES)
    assert log.truncated == (behind if index % 2 else places[index])
    kept = place.names()
    log.close()
    log, found = sound(place, covered=index)
    assert found == list(range(index + 1, 6))
    assert place.names() == kept
    log.close()


@pytest.mark.parametrize("covered", [None, 0, 2, 3, 5])
def test_a_sidecar_that_names_any_byte_of_any_file_leaves_nothing_out(covered: int | None) -> None:
    disk = MemoryDisk()
    replay = replay_of(disk, None)
    assert list(replay) == []
    log = replay.finish(WalConfig(rotate_size=HEADER_BYTES + 2 * (SIZE - 90)))
    for seq in range(6):
        log.append(bundle(seq, 10))
    log.sync_all()
    log.close()
    files = disk.list_dir("wal")
    assert len(files) == 3
    wanted = list(range(0 if covered is None else covered + 1, 6))
    for generation in range(1, 5):
        for offset in range(max(file.size for file in files) + 2):
            image = MemoryDisk(disk.tree)
            sidecar = image.create(SIDECAR)
            sidecar.write(0, encode_sidecar(Place(generation, offset)))
            sidecar.close()
            replay = replay_of(image, covered)
            assert [item.wal_seq for item, _ in replay] == wanted, (generation, offset)
            assert (replay.damage, replay.torn) == ([], None), (generation, offset)
            log = replay.finish(WalConfig())
            assert log.end.generation == 3
            log.close()


def test_a_sidecar_above_the_end_is_replaced_and_later_entries_come_back(place: Folder) -> None:
    place.fill(4)
    (place.root / SIDECAR).write_bytes(encode_sidecar(Place(1, start_of(9))))
    log, found = sound(place, covered=1)
    assert found == [2, 3]
    places = [log.append(bundle(seq)) for seq in range(4, 12)]
    log.close()
    log, found = sound(place, covered=1)
    assert found == list(range(2, 12))
    log.truncate(places[0])
    log.close()
    assert decode_sidecar((place.root / SIDECAR).read_bytes()) == places[0]
    assert sound(place, covered=4)[1] == list(range(5, 12))


def test_a_stop_before_the_sidecar_has_its_name_leaves_the_old_one_in_force() -> None:
    disk = MemoryDisk()
    replay = replay_of(disk, None)
    assert list(replay) == []
    log = replay.finish(WalConfig())
    places = [log.append(bundle(seq)) for seq in range(4)]
    log.truncate(places[0])
    disk.fail(lambda op: isinstance(op, Rename) and op.name == "truncate.offset", error="kill")
    with pytest.raises(Killed):
        log.truncate(places[2])
    names = [entry.name for entry in disk.list_dir("wal")]
    assert names == ["quiver.wal", "truncate.offset", "truncate.offset.tmp"]
    assert decode_sidecar(bytes(disk.map(SIDECAR))) == places[0]
    replay = replay_of(MemoryDisk(disk.tree), 0)
    assert [item.wal_seq for item, _ in replay] == [1, 2, 3]
    assert replay.damage == []


@pytest.mark.parametrize("generation", [0, 10**19 - 1, 10**19, 2**64 - 2, 2**64 - 1])
def test_an_invented_generation_in_the_sidecar_costs_nothing(
    place: Folder, generation: int
) -> None:
    """Files are named after it once the log rotates, and must be found again."""
    place.fill(3)
    (place.root / SIDECAR).write_bytes(encode_sidecar(Place(generation, HEADER_BYTES)))
    log, found = place.open(rotate_size=1)
    assert found == [0, 1, 2]
    for seq in range(3, 6):
        end = log.append(bundle(seq))
    log.close()
    log, found = place.open()
    assert found == [0, 1, 2, 3, 4, 5]
    log.truncate(end)
    log.close()
    assert sound(place, covered=5)[1] == []


def test_a_sidecar_of_any_size_is_set_aside_without_holding_it_in_memory(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.fill(3)
    with (place.root / SIDECAR).open("wb") as file:
        file.truncate(32 << 20)
    honest = LocalFile.read

    def read(file: LocalFile, offset: int, length: int) -> bytes:
        if length > 8 << 20:
            raise MemoryError(f"{length:,} bytes of {file.path} at once")
        return honest(file, offset, length)

    monkeypatch.setattr(LocalFile, "read", read)
    log, found = place.open()
    log.close()
    assert found == [0, 1, 2]
    assert place.replay is not None
    assert len(place.replay.damage) == 1
    assert place.names() == ["quiver.wal"]


# What a later Quiver wrote.


@pytest.mark.parametrize("name", ["quiver.wal.1", "quiver.wal"])
@pytest.mark.parametrize("version", [0, 2, 0xFFFF])
def test_a_file_of_another_version_is_refused_and_no_byte_changes(
    place: Folder, name: str, version: int
) -> None:
    place.fill(4, rotate_size=TWO_IN_A_FILE)
    ours = (place.root / "wal" / name).read_bytes()
    header = bytearray(encode_header(bytes(reversed(DIGEST))))
    struct.pack_into("<H", header, 10, version)
    place.damage(lambda data: data.__setitem__(slice(HEADER_BYTES), header), name)
    before = {path: (place.root / "wal" / path).read_bytes() for path in place.names()}
    for _ in range(2):
        with pytest.raises(VersionError, match=f"version {version}, this Quiver reads 1"):
            place.open()
    assert {path: (place.root / "wal" / path).read_bytes() for path in place.names()} == before
    assert place.quarantine() == []
    (place.root / "wal" / name).write_bytes(ours)
    assert sound(place)[1] == [0, 1, 2, 3]


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff" * 3000, encode_bundle(bundle(1))])
@pytest.mark.parametrize("entry_type", [3, 9, 255])
def test_unknown_entries_are_skipped_wherever_they_are(
    place: Folder, entry_type: int, body: bytes
) -> None:
    def unknown(seq: int) -> bytes:
        return alien(seq, entry_type=entry_type, body=body)

    data = encode_header(DIGEST) + unknown(0) + encode_bundle(bundle(0)) + unknown(0) + unknown(5)
    (place.root / "wal").mkdir()
    (place.root / "wal/quiver.wal.1").write_bytes(data + encode_bundle(bundle(1)) + unknown(2))
    active = encode_header(DIGEST) + encode_bundle(bundle(2)) + unknown(2**64 - 1)
    (place.root / "wal/quiver.wal").write_bytes(active)
    log, found = sound(place)
    assert found == [0, 1, 2]
    assert log.end == Place(2, len(active))
    log.append(bundle(3))
    log.close()
    assert (place.root / "wal/quiver.wal").read_bytes() == active + encode_bundle(bundle(3))
    assert (place.root / "wal/quiver.wal.1").read_bytes().startswith(data)
    assert sound(place)[1] == [0, 1, 2, 3]
    assert sound(place, covered=1)[1] == [2, 3]


def test_an_unknown_entry_that_is_cut_short_is_a_torn_tail(place: Folder) -> None:
    place.fill(2)
    entry = alien(2, body=b"later" * 9)
    for length in range(1, len(entry)):
        place.damage(append(entry[:length]))
        log, found = place.open()
        log.close()
        assert found == [0, 1]
        assert place.replay is not None
        assert place.replay.torn is not None, length
        assert place.replay.damage == [], length
        assert (place.root / "wal/quiver.wal").stat().st_size == start_of(2)


# Where a walk begins.


@pytest.mark.parametrize("first", [0, 1, 3, 4])
def test_a_walk_begins_at_any_entry(place: Folder, first: int) -> None:
    place.fill(4)
    file = place.disk.open("wal/quiver.wal")
    *entries, tail = walk(file, start_of(first), entry_bytes_max=LIMIT, last_seq=first - 1)
    file.close()
    assert [item.frame.wal_seq for item in entries if isinstance(item, Entry)] == [*range(first, 4)]
    assert len(entries) == 4 - first
    assert tail == Tail(start_of(4), start_of(4), None, is_torn=False)


def test_a_walk_from_behind_the_end_finds_nothing(place: Folder) -> None:
    place.fill(2)
    file = place.disk.open("wal/quiver.wal")
    behind = start_of(2) + 1000
    assert list(walk(file, behind, entry_bytes_max=LIMIT)) == [
        Tail(behind, start_of(2), None, is_torn=False)
    ]
    file.close()


# Sidecars that look right and are not.


def test_a_place_inside_of_a_payload_that_looks_like_entries_is_not_believed() -> None:
    disk = MemoryDisk()
    replay = replay_of(disk, None)
    assert list(replay) == []
    log = replay.finish(WalConfig())
    log.append(bundle(0))
    inner = encode_bundle(bundle(1))
    log.append(EncodedBundle(1, 0, (Payload(0, 0, bytes(32), 1, inner),)))
    log.append(bundle(2))
    log.sync_all()
    log.close()
    data = bytes(disk.map("wal/quiver.wal"))
    sidecar = disk.create(SIDECAR)
    sidecar.write(0, encode_sidecar(Place(1, data.index(inner, start_of(1) + 1))))
    sidecar.close()
    replay = replay_of(disk, 0)
    assert [item.wal_seq for item, _ in replay] == [1, 2]
    assert replay.damage == []


@pytest.mark.parametrize("covered", [1, 5, 6])
def test_an_earlier_sidecar_before_a_longer_hole_is_no_damage(covered: int) -> None:
    disk = MemoryDisk()
    replay = replay_of(disk, None)
    assert list(replay) == []
    log = replay.finish(WalConfig(reclaim_size=1))
    places = [log.append(bundle(seq, 3000)) for seq in range(8)]
    log.truncate(places[1])
    earlier = bytes(disk.map(SIDECAR))
    log.truncate(places[5])
    log.sync_all()
    log.close()
    replace(disk, SIDECAR, earlier)
    assert disk.open("wal/quiver.wal").read(places[1].offset, 2000) == bytes(2000)
    replay = replay_of(disk, covered)
    assert [item.wal_seq for item, _ in replay] == list(range(max(covered + 1, 6), 8))
    assert [error.message for error in replay.damage] == (
        ["4 bundles are missing from the log"] if covered == 1 else []
    )


def test_files_that_the_newest_segment_covers_go_although_no_sidecar_says_so(
    place: Folder,
) -> None:
    place.fill(5, rotate_size=TWO_IN_A_FILE)
    assert "truncate.offset" not in place.names()
    covered = Place(3, HEADER_BYTES + CHECKPOINT_BYTES)
    log, found = place.open(covered=3, hint=covered)
    assert found == [4]
    assert log.truncated == covered
    log.truncate(covered)
    assert place.names() == ["quiver.wal"]
    log.close()
    assert sound(place, covered=3)[1] == [4]


def test_nothing_that_could_be_an_entry_behind_a_hole_is_damage(place: Folder) -> None:
    (place.root / "wal").mkdir()
    data = encode_header(DIGEST) + bytes(1000) + b"\xff" * 20
    (place.root / "wal/quiver.wal").write_bytes(data)
    log, found = place.open(covered=3)
    assert found == []
    assert place.replay is not None
    assert [error.offset for error in place.replay.damage] == [HEADER_BYTES]
    assert place.replay.torn is None
    assert log.append(bundle(60)).generation == 2
    log.close()
