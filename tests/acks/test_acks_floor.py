"""The floor as a reader without a lock finds it, and when it says that it may not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from quiver.acks import Ack, AckLog, Checkpoint, Floor, Register
from quiver.acks.floor import read_floor
from quiver.acks.format import FRAME_SIZE, HEADER_LAYOUT, HEADER_SIZE, MAGIC
from quiver.disk import LocalDisk
from quiver.errors import DamagedEntry, VersionError

SOME = [Ack(1, 0, index, 1, 0) for index in range(3)]
FIRST, LAST = Floor(1, 10), Floor(2, 20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    LocalDisk(tmp_path / "s", create=True).make_dir("core_0")
    return tmp_path / "s"


def write(root: Path, *groups: list, checkpoint: Checkpoint | None = None) -> Path:
    """Write records, after a checkpoint that covers ``Register`` and what it says."""
    log, _ = AckLog.open(LocalDisk(root), "core_0/acks", "core_0/quarantine")
    log.append([Register(1, "spark")])
    if checkpoint is not None:
        log.checkpoint(checkpoint)
    for records in groups:
        log.append(records)
    log.sync()
    log.close()
    return root / "core_0/acks/ack.log"


def floor(root: Path) -> tuple[Floor, object]:
    found, damage = read_floor(LocalDisk(root), "core_0/acks")
    return found, None if damage is None else (type(damage), damage.path.rsplit("/", 1)[-1])


def frame(log: Path, index: int, value: int | None) -> None:
    """Flip a byte of a frame, by its number from the end of the log, or blank it."""
    data = bytearray(log.read_bytes())
    start = len(data) + index * FRAME_SIZE
    if value is None:
        data[start : start + FRAME_SIZE] = bytes(FRAME_SIZE)
    else:
        data[start + 20] ^= value
    log.write_bytes(data)


def test_the_last_floor_of_the_log_is_found_behind_older_ones_and_before_acks(root) -> None:
    write(root, [FIRST, FIRST], SOME, [LAST, LAST], SOME)
    assert floor(root) == (LAST, None)


def test_without_a_floor_in_the_log_the_checkpoint_has_it_and_the_higher_one_counts(root) -> None:
    write(root, SOME, checkpoint=Checkpoint(1, LAST))
    assert floor(root) == (LAST, None)
    write(root, [Floor(3, 5)])
    assert floor(root) == (Floor(3, 20), None)


def test_a_new_log_has_no_floor_and_no_damage(root) -> None:
    write(root)
    assert floor(root) == (Floor(0, 0), None)


def test_a_log_that_is_missing_may_have_had_a_floor(root) -> None:
    assert floor(root) == (Floor(), (DamagedEntry, "ack.log"))
    write(root, SOME, checkpoint=Checkpoint(1, LAST)).unlink()
    assert floor(root) == (LAST, (DamagedEntry, "ack.log"))


def test_one_damaged_frame_hides_no_floor_for_each_is_written_twice(root) -> None:
    log = write(root, [FIRST, FIRST], SOME, [LAST, LAST], SOME)
    frame(log, -4, 1)
    assert floor(root) == (LAST, None)
    frame(log, -2, 1)
    assert floor(root) == (LAST, None)


def test_two_damaged_frames_in_a_row_may_hide_one(root) -> None:
    log = write(root, [FIRST, FIRST], SOME, [LAST, LAST], SOME)
    frame(log, -4, 1)
    frame(log, -5, 1)
    assert floor(root) == (FIRST, (DamagedEntry, "ack.log"))


def test_what_a_power_cut_leaves_at_the_end_hides_nothing_but_garbage_may(root) -> None:
    log = write(root, [FIRST, FIRST], SOME, [LAST, LAST])
    frame(log, -1, None)
    frame(log, -2, None)
    assert floor(root) == (FIRST, None)
    log.write_bytes(log.read_bytes()[: -FRAME_SIZE - 1])
    assert floor(root) == (FIRST, None)
    write(root, [LAST, LAST])
    frame(log, -1, 1)
    frame(log, -2, 1)
    assert floor(root) == (FIRST, (DamagedEntry, "ack.log"))


def test_a_damaged_header_matters_only_if_nothing_else_knows_the_floor(root) -> None:
    log = write(root, [FIRST, FIRST])
    data = bytearray(log.read_bytes())
    data[20] ^= 1
    log.write_bytes(data)
    assert floor(root) == (FIRST, None)
    log.write_bytes(data[:HEADER_SIZE])
    assert floor(root) == (Floor(), (DamagedEntry, "ack.log"))


@pytest.mark.parametrize("act", [Path.unlink, lambda path: path.write_bytes(b"garbage")])
def test_a_checkpoint_that_is_gone_or_garbage_may_have_had_the_floor(root, act) -> None:
    log = write(root, SOME, checkpoint=Checkpoint(1, LAST))
    act(log.with_name("checkpoint"))
    found, damage = floor(root)
    assert (found, damage[1]) == (Floor(), "checkpoint")
    write(root, [LAST, LAST])
    assert floor(root) == (LAST, None)


def test_a_log_of_a_newer_format_is_refused(root) -> None:
    log = write(root, [LAST, LAST])
    data = bytearray(log.read_bytes())

    body = HEADER_LAYOUT.pack(MAGIC, 2, 0, 0, 1, 0)[:-4]
    data[:HEADER_SIZE] = body + crc32c(body).to_bytes(4, "little")
    log.write_bytes(data)
    with pytest.raises(VersionError):
        floor(root)
