"""Files of the log that are used again: what is older in them never counts, and ends are plain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from reuse_kit import ACTIVE, bytes_of, gone_round, opened, with_bytes
from wal_kit import LIMIT, SIZE, bundle

from quiver.errors import CapacityError, QuiverError
from quiver.payload import EncodedBundle, Payload
from quiver.stored_run import StoredRun
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.recorder import Killed
from quiver.wal import Place, entry_parts, rotated_generation
from quiver.wal.files import own_generation
from quiver.wal.format import BUNDLE, HEADER_BYTES, encode_bundle
from quiver.wal.reader import Entry, Tail, sweep, walk
from quiver.wal.reuse import BEGINNING_BYTES, FIRST, MARK_BYTES, dressed, encode_mark, mask_of


def spares(disk: MemoryDisk) -> list[str]:
    return [entry.name for entry in disk.list_dir("wal") if "spare" in entry.name]


def test_a_file_that_segments_hold_is_written_over() -> None:
    disk, log = gone_round()
    with closing(disk.open(ACTIVE)) as file:
        assert own_generation(file) == log.end.generation
        assert file.size() > log.end.offset + MARK_BYTES, "nothing older is left in it"
    log.append(bundle(11))
    log.sync_all()
    assert opened(MemoryDisk(disk.tree), covered=10)[1] == [11]
    inodes = set(disk.tree.blobs)
    for seq in range(12, 60):
        log.append(bundle(seq))
        log.sync_all()
        log.truncate(log.end)
    files = {op.inode for op in disk.history.ops if hasattr(op, "offset") and ACTIVE in op.path}
    assert len(files) < 6, "a new file was made although there were spares"
    assert inodes & set(disk.tree.blobs)


def test_spares_count_and_go_when_the_disk_is_short() -> None:
    disk, log = gone_round()
    names = spares(disk)
    assert 1 <= len(names) <= 2
    sizes = [disk.stat(f"wal/{name}").size for name in names]  # type: ignore[union-attr]
    before = log.disk_bytes
    log.squeeze()
    assert spares(disk) == []
    assert log.disk_bytes <= before - sum(sizes)


def test_a_closed_log_leaves_no_spare_and_a_killed_one_none_behind_the_next_start() -> None:
    disk, log = gone_round()
    killed = MemoryDisk(disk.tree)
    opened(killed, covered=10)
    assert spares(killed) == []
    log.close()
    assert spares(disk) == []


@pytest.mark.parametrize("reclaim", ["punch", "copy"])
def test_other_ways_to_give_back_keep_none(reclaim: str) -> None:
    disk, _ = gone_round(reclaim=reclaim)
    assert spares(disk) == []
    with closing(disk.open(ACTIVE)) as file:
        assert own_generation(file) is None


@pytest.mark.parametrize("size", [100, 1])
def test_whatever_part_of_an_append_is_there_it_is_cut_and_is_no_damage(size: int) -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    before = bytes_of(disk)
    log.append(bundle(12, size))
    rest, head = [op for op in disk.history.ops if getattr(op, "path", "") == ACTIVE][-2:]
    assert head.offset + MARK_BYTES == rest.offset, "the mark goes before the rest is there"
    # What reaches into the last bytes of the mark and no further would be one page's end in a kill.
    parts_of_head = range(MARK_BYTES - 3)
    for act, parts in ((rest, range(len(rest.data) + 1)), (head, parts_of_head)):
        data = bytes(before)
        if act is head:
            data = data[: rest.offset] + rest.data + data[rest.offset + len(rest.data) :]
        for count in parts:
            end = act.offset + count
            torn = with_bytes(disk, data[: act.offset] + act.data[:count] + data[end:])
            after, found, replay = opened(torn, covered=10)
            assert (found, replay.damage, replay.last_seq) == ([11], [], 11), (act, count)
            after.append(bundle(12))
            after.sync_all()
            assert opened(MemoryDisk(torn.tree), covered=10)[1] == [11, 12]


def test_a_log_in_a_payload_is_never_taken_for_the_log() -> None:
    """Bytes of this very log, as a store of backups has them; their entries have high numbers."""
    disk, log = gone_round()
    mask = mask_of(log.end.generation)
    inner = b"".join(encode_bundle(bundle(seq)) for seq in (100, 101))
    inner += b"".join(b"".join(dressed(entry_parts(bundle(seq)), mask)) for seq in (102, 103))
    inner += encode_mark(103, mask)
    backup = EncodedBundle(11, 0, (Payload(0, 0, bytes(32), 1, bytes(400) + inner),))
    log.append(backup)
    log.sync_all()
    log.truncate(log.end)
    for seq in range(12, 14):
        log.append(bundle(seq))
        log.sync_all()
        log.truncate(log.end)
    for last in range(14, 30):
        log.append(bundle(last, 3))
        log.sync_all()
        if (data := bytes(bytes_of(disk))).find(inner) > log.end.offset:
            break
        log.truncate(log.end)
    assert inner in data[log.end.offset :]
    at = log.end.offset
    for wreck in (bytes(MARK_BYTES), b"\xff" * MARK_BYTES):
        wrecked = with_bytes(disk, data[:at] + wreck + data[at + MARK_BYTES :])
        _, found, replay = opened(wrecked, covered=last - 1)
        assert found == [last]
        assert replay.last_seq < 10**6


def test_each_byte_of_a_file_that_was_used_before_may_be_damaged() -> None:
    disk, log = gone_round()
    for seq in range(11, 14):
        log.append(bundle(seq))
    log.sync_all()
    data, end = bytes_of(disk), log.end.offset
    for offset in range(end + MARK_BYTES):
        for bits in (0xFF, 1):
            wrong = bytearray(data)
            wrong[offset] ^= bits
            twin = with_bytes(disk, wrong)
            _, found, replay = opened(twin, covered=10)
            lost = {11, 12, 13} - set(found)
            assert set(found) <= {11, 12, 13}, offset
            assert len(lost) == (FIRST <= offset < end and not _is_length(offset)), offset
            if offset < end:
                assert replay.damage, (offset, bits)
            assert replay.last_seq >= 13, offset
            again = opened(MemoryDisk(twin.tree), covered=10)[1]
            assert again == found, offset


def _is_length(offset: int) -> bool:
    return (offset - FIRST) % SIZE < 4


def test_a_beginning_that_is_gone_twice_costs_no_bundle() -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.append(bundle(12))
    log.sync_all()
    data = bytes_of(disk)
    for start in (HEADER_BYTES, 0):
        wrong = bytearray(data)
        wrong[start : HEADER_BYTES + 2 * BEGINNING_BYTES] = b"\xee" * (FIRST - start)
        twin = with_bytes(disk, wrong)
        after, found, replay = opened(twin, covered=10)
        assert found == [11, 12]
        assert replay.damage
        after.append(bundle(replay.last_seq + 1))
        after.sync_all()
        again = opened(MemoryDisk(twin.tree), covered=10)[1]
        assert again == [11, 12, replay.last_seq + 1]


def test_a_damaged_end_is_kept_and_its_number_with_it() -> None:
    disk, log = gone_round()
    log.append(bundle(11))
    log.append(bundle(12))
    log.sync_all()
    data = bytes_of(disk)
    data[log.end.offset - 10] ^= 1
    twin = with_bytes(disk, data)
    after, found, replay = opened(twin, covered=10)
    assert found == [11]
    assert replay.last_seq >= 12
    assert twin.list_dir("quarantine")
    assert after.file_count == 2
    after.append(bundle(replay.last_seq + 1))
    after.sync_all()
    _, again, second = opened(MemoryDisk(twin.tree), covered=10)
    assert again == [11, replay.last_seq + 1]
    assert len(second.damage) == len(replay.damage) == 1


@pytest.mark.parametrize("kind", ["ENOSPC", "EIO", "short"])
def test_an_append_that_is_refused_has_changed_nothing(kind: str) -> None:
    _, log = gone_round()
    for later in range(2):
        disk, log = gone_round()
        log._spares.drop()
        log.append(bundle(11))
        log.sync_all()
        disk.fail(disk.act_count + later, error=kind)  # type: ignore[arg-type]
        with pytest.raises(QuiverError):
            log.append(bundle(12))
        disk.heal()
        _, found, replay = opened(MemoryDisk(disk.tree), covered=10)
        assert (found, replay.damage) == ([11], [])
        log.append(bundle(12, 7))
        log.append(bundle(13))
        log.sync_all()
        _, found, replay = opened(MemoryDisk(disk.tree), covered=10)
        assert (found, replay.damage) == ([11, 12, 13], [])


def test_at_no_act_does_a_round_lose_or_invent_anything() -> None:
    number = 0
    while True:
        number += 1
        disk, log = gone_round(4)
        disk.fail(disk.act_count + number, error="kill", sticky=True)
        taken, covered = 5, 5
        try:
            for seq in range(6, 9):
                log.append(bundle(seq))
                log.sync_all()
                taken = seq
                covered = seq
                log.truncate(log.end)
        except Killed:
            pass
        else:
            break
        disk.heal()
        _, found, replay = opened(disk, covered=covered)
        assert replay.damage == []
        assert found in ([], [taken + 1]), number
        assert replay.last_seq in (taken, taken + 1)
    assert number > 40


def frames(items: Iterator[object]) -> list[int]:
    seqs: list[int] = []
    for item in items:
        if isinstance(item, StoredRun):
            seqs += range(item.first_seq, item.last_seq + 1)
        elif isinstance(item, Entry) and item.frame.entry_type == BUNDLE:
            seqs.append(item.frame.wal_seq)
    return seqs


def test_a_sweep_finds_what_a_walk_finds() -> None:
    disk, log = gone_round(rotate_size=HEADER_BYTES + 40 * SIZE)
    for seq in range(11, 40):
        log.append(bundle(seq))
    with closing(disk.open(ACTIVE)) as file:
        how = {"entry_bytes_max": LIMIT, "last_seq": -1, "is_active": True}
        walked = list(walk(file, HEADER_BYTES, **how))  # type: ignore[arg-type]
        generation = log.end.generation
        swept = list(sweep(file, HEADER_BYTES, generation=generation, **how))  # type: ignore[arg-type]
        runs = [item for item in swept if isinstance(item, StoredRun)]
        sums = [stored.checksum for run in runs for stored in run.bundles()]
    assert frames(iter(walked)) == frames(iter(swept)) == list(range(11, 40))
    assert walked[-1] == swept[-1] == Tail(log.end.offset, log.end.offset, None, is_torn=False)
    found = [i.frame.checksum for i in walked if isinstance(i, Entry)][2:]
    assert sums == found[-len(sums) :]
    assert sums


def test_who_reads_a_file_that_is_begun_anew_meanwhile_finds_nothing_in_it() -> None:
    disk, log = gone_round(3)
    held = disk.open(ACTIVE)
    generation = log.end.generation
    for seq in range(5, 25):
        log.append(bundle(seq))
        log.sync_all()
        log.truncate(log.end)
        if own_generation(held) != generation:
            break
    assert own_generation(held) != generation
    items = list(walk(held, HEADER_BYTES, entry_bytes_max=LIMIT, generation=generation))
    assert frames(iter(items)) == []
    assert all(getattr(item, "error", None) is None for item in items)


def test_a_prefix_may_be_punched_out_of_a_file_that_was_used_before() -> None:
    disk, log = gone_round()
    for seq in range(11, 14):
        place = log.append(bundle(seq))
        log.sync_all()
    log.close()
    log, found, _ = opened(disk, covered=10, reclaim="punch")
    assert found == [11, 12, 13]
    log.truncate(Place(place.generation, place.offset - SIZE))
    _, found, replay = opened(MemoryDisk(disk.tree), covered=12)
    assert (found, replay.damage) == ([13], [])
    log.truncate(place)
    for covered in (13, 12):
        _, found, replay = opened(MemoryDisk(disk.tree), covered=covered)
        assert (found, replay.damage, replay.last_seq) == ([], [], 13) or covered == 12
    log.append(bundle(14))
    log.sync_all()
    assert opened(MemoryDisk(disk.tree), covered=13)[1] == [14]


def test_with_no_room_for_another_file_the_prefix_is_punched() -> None:
    disk, log = gone_round(1, max_chunks=1, rotate_size=1 << 20)
    ends = [log.append(bundle(seq, 5000)) for seq in range(3, 6)]
    log.sync_all()
    log.truncate(ends[1])
    assert log.file_count == 1
    assert opened(MemoryDisk(disk.tree), covered=4)[1] == [5]
    with pytest.raises(CapacityError):
        opened(MemoryDisk(disk.tree), covered=4, max_size=1)[0].append(bundle(6))


def test_what_a_power_cut_left_behind_a_mark_is_gone_when_its_number_is_given_out_again() -> None:
    """Two appends, of which only the second reached the disk: it has a right mask and number."""
    disk, log = gone_round()
    log.append(bundle(11))
    log.sync_all()
    before, start = bytes_of(disk), log.end.offset
    log.append(bundle(12))
    second = log.end.offset
    log.append(bundle(13))
    after = bytes_of(disk)
    left = before[:second] + after[second:]
    assert encode_bundle(bundle(13))[4:-4] in left
    twin = with_bytes(disk, left)
    again, found, replay = opened(twin, covered=10)
    assert (found, replay.damage) == ([11], [])
    assert len(bytes_of(twin)) == start + MARK_BYTES
    again.append(bundle(12, 1))
    again.sync_all()
    torn = bytes_of(twin)
    torn[start + 30] ^= 1
    assert opened(with_bytes(twin, torn), covered=10)[1] == [11]


def test_a_file_that_somebody_removed_is_no_spare() -> None:
    disk, log = gone_round(1)
    log.append(bundle(3))
    log.append(bundle(4, 700))
    log.sync_all()
    names = [entry.name for entry in disk.list_dir("wal")]
    [rotated] = [name for name in names if rotated_generation(name) is not None]
    disk.unlink(f"wal/{rotated}")
    log.truncate(log.end)
    log.append(bundle(5))
    log.sync_all()
    assert opened(MemoryDisk(disk.tree), covered=4)[1] == [5]
