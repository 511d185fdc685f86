"""What subscribers did, read from ack.log and its checkpoint without mending either of them.

The log is read before the checkpoint: whatever a writer does in between, the checkpoint is then
never behind the log, so nothing is missing between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from quiver.acks import (
    Checkpoint,
    Floor,
    Record,
)
from quiver.acks.copies import CHECKPOINT_FILE_BYTES_MAX, read_copies
from quiver.acks.opening import CHECKPOINT_NAME, LOG_BYTES_MAX, LOG_NAME
from quiver.acks.replay import LogContent, read_log
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.engine.outcomes import apply, snapshot_of
from quiver.errors import DamagedEntry, DamageError, MissingError, VersionError
from quiver.subscriber import Registry

__all__ = ["AcksState", "read_acks"]


@dataclass(slots=True)
class AcksState:
    """What ack.log and its checkpoint add up to; sizes are None where there is no file."""

    log_bytes: int | None = None
    checkpoint_bytes: int | None = None
    record_count: int = 0
    checkpoint_record_seq: int | None = None
    checkpoint: Checkpoint | None = None
    torn_bytes: int = 0
    floor: Floor = field(default_factory=Floor)
    registry: Registry = field(default_factory=Registry)
    damage: list[DamageError] = field(default_factory=list)


def read_acks(disk: Disk, core: int, segments: Mapping[int, int]) -> AcksState:
    """Replay a core's outcomes over its segments (sequence to bundle count); damage is listed.

    Raises VersionError that begins with the name of the file that is too new.
    """
    folder = f"{core_folder(core)}/acks"
    log_place = disk.locate(f"{folder}/{LOG_NAME}")
    checkpoint_place = disk.locate(f"{folder}/{CHECKPOINT_NAME}")
    state = AcksState()
    log_data = _read_whole(disk, f"{folder}/{LOG_NAME}", LOG_BYTES_MAX)
    checkpoint_data = _read_whole(disk, f"{folder}/{CHECKPOINT_NAME}", CHECKPOINT_FILE_BYTES_MAX)

    checkpoint = None
    faults: list[DamageError] = []
    if checkpoint_data is not None:
        state.checkpoint_bytes = len(checkpoint_data)
        with _naming(checkpoint_place):
            checkpoint, damage = read_copies(checkpoint_data)
        faults = [error.at(checkpoint_place) for error in damage]
        if checkpoint is not None:
            state.checkpoint, state.checkpoint_record_seq = checkpoint, checkpoint.record_seq
    covered = checkpoint.record_seq if checkpoint else 0

    content = LogContent()
    if log_data is not None:
        with _naming(log_place):
            content = read_log(log_data, covered=covered)
        state.log_bytes = len(log_data)
        state.torn_bytes = 0 if content.faults else max(0, len(log_data) - content.end)
        state.damage += [error.at(log_place) for error in content.faults]
    elif checkpoint_data is not None:
        state.damage.append(DamagedEntry("the log is missing", path=log_place))
    state.damage += faults
    if (content.base_seq or 0) > covered + 1 and (checkpoint or checkpoint_data is None):
        gap = DamagedEntry(
            "the records that no log has any more are in no checkpoint",
            path=checkpoint_place,
            expected=f"all up to {(content.base_seq or 0) - 1}",
            found=f"up to {covered}" if covered else "none",
        )
        state.damage.append(gap)
    state.record_count = content.record_count
    _restore(state, checkpoint or Checkpoint(), segments)
    _replay(state, (record for _, record in content.entries))
    return state


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Put the name of a file in front of what a VersionError says of it."""
    try:
        yield
    except VersionError as error:
        raise VersionError(f"{place}: {error.message}", hint=error.hint) from error


def _read_whole(disk: Disk, path: str, bytes_max: int) -> bytes | None:
    try:
        file = disk.open(path)
    except MissingError:
        return None
    with closing(file):
        return file.read(0, bytes_max)


def _restore(state: AcksState, checkpoint: Checkpoint, segments: Mapping[int, int]) -> None:
    state.floor = checkpoint.floor
    state.registry.restore([snapshot_of(each) for each in checkpoint.subscribers], segments)


def _replay(state: AcksState, records: Iterable[Record]) -> None:
    """Bring the registry to where the records leave it, as the store does when it opens."""
    for record in records:
        if isinstance(record, Floor):
            wal_seq = max(state.floor.next_wal_seq, record.next_wal_seq)
            segment_seq = max(state.floor.next_segment_seq, record.next_segment_seq)
            state.floor = Floor(segment_seq, wal_seq)
        else:
            apply(state.registry, record)
