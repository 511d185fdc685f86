"""How far a subscriber is in one core, as a position; acks of all before one; who is new."""

from __future__ import annotations

from quiver.consumer.follower import Follower
from quiver.disk import Disk
from quiver.engine.beside import read_acks
from quiver.engine.core import core_folder, core_numbers
from quiver.engine.inboxes import inbox_folder
from quiver.engine.start import Position

__all__ = ["ack_before", "first_open", "is_known"]


def is_known(disk: Disk, name: str) -> bool:
    """Whether any core of a store knows a subscriber; one that does not is newer than that."""
    cores = core_numbers(disk)
    inboxes = [f"{inbox_folder(core_folder(number))}/{name}" for number in cores]
    return any(disk.stat(path) is not None for path in inboxes) or any(
        name in read_acks(disk, number, {}).registry for number in cores
    )


def first_open(follower: Follower, name: str) -> Position:
    """Give the first bundle without an outcome; behind all, where the next segment will be."""
    progress = follower.registry.progress(name)
    floor = progress.floor
    runs = progress.open_runs(floor)
    return Position(floor, runs[0][0] if runs else 0)


def ack_before(follower: Follower, name: str, position: Position) -> int:
    """Resolve what is open before a position, to be committed; give how many bundles that was."""
    progress, count = follower.registry.progress(name), 0
    for segment_seq in progress.open_segments:
        if segment_seq > position.segment_seq:
            break
        for first, length in progress.open_runs(segment_seq):
            stop = first + length
            if segment_seq == position.segment_seq:
                stop = min(stop, position.bundle_index)
            if stop > first:
                count += follower.registry.resolve(name, segment_seq, first, count=stop - first)
    if count:
        follower.append(())
    return count
