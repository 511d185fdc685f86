"""What is damaged is left out for good, or blocks; what is left out is set aside by the store."""

from __future__ import annotations

import pytest
from shipper_kit import (
    NAME,
    Rig,
    arrived,
    damage,
    entries,
    rot_stream,
    segment_path,
    shipped,
)

from quiver.errors import DamageError
from quiver.segment import SegmentReader, segment_name
from quiver.ship.shipper import LeftOut


def rot_end(data: bytearray) -> None:
    data[-20] ^= 1


def rot_tables(rig: Rig, seq: int) -> None:
    with SegmentReader.open(rig.disk, segment_path(seq)) as reader:
        place = reader.footer.directory_offset + 8
    damage(rig.disk, segment_path(seq), lambda data: data.__setitem__(place, data[place] ^ 1))


def dead_letters(rig: Rig) -> int:
    folder = "core_0/dead_letters"
    if rig.disk.stat(folder) is None:
        return 0
    return sum(
        len(rig.disk.list_dir(f"{folder}/{each.name}")) for each in rig.disk.list_dir(folder)
    )


def filled(rig: Rig, *counts: int) -> None:
    with rig.open() as store:
        rig.fill(store, *counts)


def test_bundles_of_a_damaged_stream_are_left_out_and_the_rest_goes(rig) -> None:
    filled(rig, 2, 4, 1)
    rot_stream(rig, 1, 1)  # Bundles 2 and 4 have notes, 3 and 5 have none.
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 1, 3, 5, 6]
    assert tally.rejected_bundles == 2
    (left_out,) = [told for told in rig.told if isinstance(told, LeftOut)]
    assert (left_out.core, left_out.segment_seq, left_out.bundle_count) == (0, 1, 2)
    assert "checksum" in left_out.reason
    with rig.open() as store:
        store.maintain()
        assert store.info().segments == 0
    assert rig.ship().bundle_count == 0
    assert arrived(rig.bucket) == [0, 1, 3, 5, 6]


def test_a_damaged_stream_of_a_slot_that_nobody_wants_costs_nothing(rig) -> None:
    filled(rig, 4)
    rot_stream(rig, 0, 1)
    tally = rig.ship(slots=("events",))
    assert arrived(rig.bucket) == [0, 1, 2, 3]
    assert tally.rejected_bundles == 0


def test_it_blocks_where_that_is_asked_for_behind_all_that_is_sound(rig) -> None:
    filled(rig, 2, 4, 1)
    rot_stream(rig, 1, 1)
    for _ in range(2):
        with pytest.raises(DamageError, match="checksum") as caught:
            rig.ship(damaged="block")
        assert caught.value.path.endswith(segment_name(1))
        assert "--damaged skip" in caught.value.hint
        assert arrived(rig.bucket) == [0, 1]
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 1, 3, 5, 6]
    assert tally.bundles_before == 0


def test_a_segment_whose_tables_are_damaged_is_left_out_as_a_whole(rig) -> None:
    filled(rig, 2, 2, 1)
    rot_tables(rig, 1)
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 1, 4]
    assert tally.rejected_bundles == 2


def test_bytes_that_nobody_reads_are_mended_on_the_way(rig) -> None:
    filled(rig, 2)

    def change(data: bytearray) -> None:
        data[-1] ^= 1  # The checksum of the whole file.

    damage(rig.disk, segment_path(0), change)
    assert rig.ship().rejected_bundles == 0
    assert arrived(rig.bucket) == [0, 1]
    for _, reader in shipped(rig.bucket):
        reader.verify()


def test_a_segment_with_a_damaged_end_is_passed_and_told_of(rig) -> None:
    filled(rig, 1, 1, 1)
    damage(rig.disk, segment_path(1), rot_end)
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 2]
    assert tally.unreadable_segments == 1
    (left_out,) = [told for told in rig.told if isinstance(told, LeftOut)]
    assert (left_out.segment_seq, left_out.bundle_count) == (1, None)


def test_what_was_passed_and_is_sound_later_is_set_aside_and_not_lost(rig) -> None:
    filled(rig, 1, 1, 1)
    sound = bytes(rig.disk.map(segment_path(1)))
    damage(rig.disk, segment_path(1), rot_end)
    rig.ship()
    damage(rig.disk, segment_path(1), lambda data: data.__setitem__(slice(None), sound))
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 2]
    assert (tally.rejected_bundles, tally.bundles_before) == (1, 0)
    with rig.open() as store:
        store.maintain()
        assert store.info().segments == 0
    assert dead_letters(rig) > 0


@pytest.mark.parametrize("seq", [1, 2])
def test_a_damaged_end_blocks_where_that_is_asked_for(rig, seq: int) -> None:
    filled(rig, 1, 1, 1)
    damage(rig.disk, segment_path(seq), rot_end)
    with pytest.raises(DamageError) as caught:
        rig.ship(damaged="block")
    assert caught.value.path.endswith(segment_name(seq))
    assert arrived(rig.bucket) == list(range(seq))


def test_damage_in_several_segments_that_share_a_batch(rig) -> None:
    filled(rig, 2, 2, 2, 2, 2)
    rot_stream(rig, 1, 1)
    rot_stream(rig, 3, 1)
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 1, 3, 4, 5, 7, 8, 9]
    assert [len(entry.items) for entry in entries(rig.bucket)] == [1, 2, 2]
    assert tally.rejected_bundles == 2
    with rig.subscribe(NAME) as reader:
        assert reader.poll() is None


def test_a_segment_that_is_deleted_meanwhile_is_neither_shipped_nor_acked(rig, monkeypatch) -> None:
    filled(rig, 1, 1, 1)
    there = rig.disk.map

    def deleted(path: str) -> memoryview:
        if path == segment_path(1):
            rig.disk.unlink(path)
        return there(path)

    monkeypatch.setattr(rig.disk, "map", deleted)
    tally = rig.ship()
    assert arrived(rig.bucket) == [0, 2]
    assert (tally.bundle_count, tally.rejected_bundles, tally.bundles_unwanted) == (2, 0, 0)
