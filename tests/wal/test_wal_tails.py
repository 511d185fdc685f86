"""Files that end where they should not, hostile lengths, and damage with later files behind it."""

from __future__ import annotations

import pytest
from wal_kit import DIGEST, SIZE, Folder, append, bundle, cut, flip, start_of

from quiver.disk import File, LocalDisk
from quiver.errors import DamagedEntry, TornEntry
from quiver.wal.format import HEADER_BYTES, encode_bundle, encode_header
from quiver.wal.reader import Tail, walk


@pytest.mark.parametrize("keep", range(HEADER_BYTES))
def test_a_file_shorter_than_its_header_holds_nothing_and_appends_go_on(
    place: Folder, keep: int
) -> None:
    place.fill(2)
    place.damage(cut(keep))
    log, found = place.open()
    assert found == []
    assert place.replay is not None
    assert [type(error) for error in place.replay.damage] == [TornEntry]
    log.append(bundle(0))
    log.close()
    assert place.open()[1] == [0]


def test_the_last_sequence_is_that_of_the_newest_file_with_entries(place: Folder) -> None:
    place.fill(4, rotate_size=1)
    (place.root / "wal/quiver.wal").rename(place.root / "wal/quiver.wal.4")
    (place.root / "wal/quiver.wal").write_bytes(encode_header(DIGEST))
    log, found = place.open()
    assert found == [0, 1, 2, 3]
    assert place.replay is not None
    assert (place.replay.last_seq, place.replay.damage) == (3, [])
    log.append(bundle(4))
    log.close()
    assert place.open()[1] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("victim", range(9))
def test_damage_in_any_file_leaves_the_entries_around_it_and_the_files_behind_it(
    place: Folder, victim: int
) -> None:
    place.fill(9, rotate_size=HEADER_BYTES + 3 * SIZE)
    assert place.names() == ["quiver.wal", "quiver.wal.1", "quiver.wal.2"]
    generation, index = divmod(victim, 3)
    name = "quiver.wal" if generation == 2 else f"quiver.wal.{generation + 1}"
    offset = start_of(index, later=generation > 0)
    place.damage(flip(offset + 60), name)
    _, found = place.open()
    assert found == [seq for seq in range(9) if seq != victim]
    assert place.replay is not None
    assert [(type(e), e.offset) for e in place.replay.damage] == [(DamagedEntry, offset)]


@pytest.mark.parametrize("length", [0xFFFFFFFF, 1 << 30, (1 << 30) - 1, 5000, 24, 0])
def test_a_hostile_length_is_never_read_and_the_next_entry_is_found(
    place: Folder, length: int
) -> None:
    place.fill(1)
    alien = length.to_bytes(4, "little") + b"\1" * 60
    place.damage(append(alien + encode_bundle(bundle(2))))

    class Counting:
        """A file that notes how many bytes are asked of it at once."""

        def __init__(self, file: File) -> None:
            self.most = 0
            self._file = file

        def read(self, offset: int, length: int) -> bytes:
            self.most = max(self.most, length)
            return self._file.read(offset, length)

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    opened = LocalDisk(place.root).open("wal/quiver.wal")
    file = Counting(opened)
    items = list(walk(file, HEADER_BYTES, entry_bytes_max=1 << 30))
    opened.close()
    assert file.most <= 1 << 20
    assert [item.offset for item in items][:2] == [start_of(0), start_of(1)]
    assert items[2].frame.wal_seq == 2
    assert isinstance(items[-1], Tail)
    assert items[-1].error is None


def test_the_walk_ends_for_good_at_a_torn_entry(place: Folder) -> None:
    place.fill(2)
    place.damage(cut(start_of(1) + 40))
    file = LocalDisk(place.root).open("wal/quiver.wal")
    items = walk(file, HEADER_BYTES, entry_bytes_max=1 << 20)
    assert next(items).offset == start_of(0)
    tail = next(items)
    assert isinstance(tail, Tail)
    assert isinstance(tail.error, TornEntry)
    for _ in range(2):
        assert next(items, None) is None
    file.close()
