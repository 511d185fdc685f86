"""Subscribers as others see them, and what follows: what all of them have may be purged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from quiver.chain.membership import list_partitions
from quiver.chain.record import Record, purged
from quiver.chain.subscribing.log import PREFIX, is_ack_partition, read_marks
from quiver.chain.subscribing.marks import Lane, Marks
from quiver.chain.subscribing.reach import Reach
from quiver.errors import DamagedEntry, DamageError, MissingError, QuiverError

__all__ = [
    "Purged",
    "SubscriberMark",
    "SubscriberView",
    "is_known",
    "list_subscribers",
    "purge_acked",
]


class SubscriberMark(NamedTuple):
    """How far a subscriber is with one partition."""

    partition: str
    floor: int
    """Of blocks below it all is done with."""
    open_count: int
    """Bundles of blocks that came, and have no outcome."""
    blocks_behind: int
    """Sealed blocks with something that is not done with."""
    letter_count: int
    pinned: int
    """The first block that it needs: that of the floor, or of its oldest dead letter."""


@dataclass(frozen=True, slots=True)
class SubscriberView:
    """A subscriber, as far as its marks are visible."""

    name: str
    wants_all: bool
    is_taken: bool
    """Whether a process has the name, or had it and was not made up for."""
    marks: tuple[SubscriberMark, ...]
    fault: str = ""
    """Why its marks cannot be read just now."""
    is_paused: bool = False
    """Whether nothing is delivered to it for now."""


class Purged(NamedTuple):
    """A partition that was purged, and who kept more of it from going."""

    partition: str
    below: int
    block_count: int
    held_by: str
    """The subscriber that needs the first block that stays; empty if there is none."""


def list_subscribers(reach: Reach) -> list[SubscriberView]:
    """Give all subscribers, by name, with how far they are with each partition."""
    found = []
    for name in _names(reach):
        try:
            marks = _marks(reach, name)
            if not marks.is_gone:
                found.append(_view(reach, name, marks))
        except QuiverError as error:
            found.append(
                SubscriberView(name, wants_all=False, is_taken=False, marks=(), fault=error.message)
            )
    return found


def is_known(reach: Reach, name: str) -> bool:
    """Whether there is a subscriber of this name, also if nobody can read its marks."""
    if name not in _names(reach):
        return False
    try:
        return not _marks(reach, name).is_gone
    except DamageError:
        return True


def purge_acked(reach: Reach, partitions: Sequence[str] = ()) -> list[Purged]:
    """Purge the blocks of which every subscriber is done with all; dead letters keep theirs.

    A partition that nobody subscribed to is left alone. Raises MissingError for one that was named
    and is not there.
    """
    for name in partitions:
        reach.partition(name).read()
    done = []
    found: dict[str, Marks] = {}
    for partition_name in partitions or reach.partitions():
        is_new = not found
        _read_all_marks(reach, found)
        needs = _needs(found, partition_name)
        if needs and not is_new and _count_below(reach, partition_name, min(needs)[0]):
            # Somebody may have been reset since, or forgotten, and subscribed anew.
            found.clear()
            _read_all_marks(reach, found)
            needs = _needs(found, partition_name)
        if needs:
            below, held_by = min(needs)
            done.append(_purge(reach, partition_name, below, held_by=held_by))
    return done


def _count_below(reach: Reach, name: str, below: int) -> int:
    """Say how many blocks of a partition lie before one."""
    partition = reach.partition(name)
    return sum(block.number < below for block in partition.blocks(partition.read()))


def _read_all_marks(reach: Reach, found: dict[str, Marks]) -> None:
    """Read the marks of everybody, also of who got another name or came while they were read.

    What was ``found`` before is not read again: a floor only rises, but for who begins anew. Who
    is renamed has both names for a moment, so one of them is found: names are listed again until
    there is none that was not read, and none that was gone when it was read and is back.
    """
    while True:
        wanted = [name for name in _names(reach) if name not in found or found[name].is_gone]
        read = {name: _sound_marks(reach, name) for name in wanted}
        is_settled = all(name in found and marks.is_gone for name, marks in read.items())
        found.update(read)
        if is_settled:
            return


def _purge(reach: Reach, name: str, below: int, *, held_by: str) -> Purged:
    partition = reach.partition(name)
    count = _count_below(reach, name, below)
    if count:
        partition.sweep(partition.change(partial(_purged, below)))
    is_held = any(True for _ in partition.blocks(partition.read()))
    return Purged(name, below, count, held_by if is_held else "")


def _purged(below: int, record: Record) -> Record:
    return purged(record, below)


def _needs(found: dict[str, Marks], partition: str) -> list[tuple[int, str]]:
    """Give the first block that each subscriber of a partition needs."""
    needs = []
    for name, marks in found.items():
        if marks.is_gone:
            continue
        lane = marks.lanes.get(partition)
        if lane is not None:
            needs.append((_pinned(lane), name))
        elif marks.wants_all:
            needs.append((0, name))
    return needs


def _pinned(lane: Lane) -> int:
    return min([lane.floor, *(letter.block for letter in lane.letters)])


def _names(reach: Reach) -> list[str]:
    found = list_partitions(reach.metadata)
    return [name.removeprefix(PREFIX) for name in found if is_ack_partition(name)]


def _marks(reach: Reach, name: str) -> Marks:
    """Read marks; who has none yet, or lost them, needs everything."""
    return read_marks(reach, name) or Marks(wants_all=True)


def _sound_marks(reach: Reach, name: str) -> Marks:
    """Read marks; DamagedEntry that says whose they are, and what can be done."""
    try:
        return _marks(reach, name)
    except DamageError as error:
        raise DamagedEntry(
            f"the marks of subscriber {name} cannot be read: {error.message}",
            path=error.path,
            offset=error.offset,
            expected=error.expected,
            found=error.found,
            hint=f"quiver chain unsubscribe {name} forgets it: then nothing is kept for it",
        ) from error


def _view(reach: Reach, name: str, marks: Marks) -> SubscriberView:
    rows = []
    for partition_name, lane in sorted(marks.lanes.items()):
        partition = reach.partition(partition_name)
        behind = 0
        try:
            record = partition.read()
            first = max(lane.floor, record.purged_below)  # A page has what was purged of it.
            behind = sum(1 for _ in partition.blocks_from(record, first))
        except MissingError:  # It has no bundle yet.
            behind = 0
        count = len(lane.letters)
        rows.append(
            SubscriberMark(
                partition_name, lane.floor, lane.open_count, behind, count, _pinned(lane)
            )
        )
    taken = bool(reach.partition(PREFIX + name).read().writer)
    return SubscriberView(name, marks.wants_all, taken, tuple(rows), is_paused=marks.is_paused)
