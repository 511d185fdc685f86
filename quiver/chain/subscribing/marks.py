"""What a subscriber's records come to: what it had of each partition, and where it goes on. Pure.

Blocks come in order, so those between the floor and ``next_number`` are exactly the known ones.
"""

from __future__ import annotations

from typing import NamedTuple

from quiver.chain.subscribing.records import (
    Acked,
    Joined,
    LaneSnapshot,
    Nacked,
    Record,
    Rejected,
    Snapshot,
    Taken,
)
from quiver.errors import DamagedEntry
from quiver.subscriber import Member

__all__ = ["DeadLetter", "Lane", "Marks"]


class DeadLetter(NamedTuple):
    """A bundle that was given up; a cursor at its time gives it, as long as it is not purged."""

    partition: str
    block: int
    wal_seq: int
    time_ns: int
    attempt: int
    reason: str


class Lane:
    """One partition of a subscriber. Not safe for threads."""

    def __init__(
        self,
        partition: str,
        floor: int,
        *,
        start_ns: int | None = None,
        next_seq: int | None = None,
    ) -> None:
        """Begin at a block of which nothing was taken yet."""
        self.partition = partition
        self.start_ns = start_ns
        self.member = Member(0, floor)
        self.blocks: dict[int, Taken] = {}
        self.next_number = floor
        self.next_seq = next_seq
        self.letters: list[Rejected] = []

    @property
    def floor(self) -> int:
        """Of blocks below it all is done with."""
        return self.member.progress.floor

    @property
    def open_count(self) -> int:
        """How many bundles of the known blocks are not done with."""
        return self.member.progress.lag

    def take(self, taken: Taken) -> None:
        """Know the next block; once more is not at all, as behind what broke off."""
        if taken.block < self.next_number:
            if self.blocks.get(taken.block) == taken:
                return
            raise DamagedEntry(
                f"block {taken.block} of {self.partition} was taken before",
                expected=f"{self.next_number} or more",
                found=taken.block,
            )
        self.blocks[taken.block] = taken
        is_open = self.member.add_segment(taken.block, taken.bundle_count)
        if is_open and taken.block not in self.member.offers.ready:  # It broke off in there.
            self.member.offers.add_segment(taken.block)
        self.next_number, self.next_seq = taken.block + 1, taken.end_seq

    def resolve(self, block: int, first: int, count: int) -> None:
        """Be done with bundles, whoever has them; once more is not at all."""
        if not self._is_past(block):
            self._check(block, first + count)
            self.member.resolve(block, first, count)
        self.tidy()

    def give_up(self, letter: Rejected) -> None:
        """Be done with a bundle as a dead letter; once more is not at all."""
        lag = self.open_count
        self.resolve(letter.block, letter.bundle_index, 1)
        if self.open_count < lag or letter not in self.letters:
            self.letters.append(letter)

    def hold_back(self, nack: Nacked) -> None:
        """Offer a bundle again later."""
        if self._is_past(nack.block):
            return
        self._check(nack.block, nack.bundle_index + 1)
        bundle = nack.block, nack.bundle_index
        if not self.member.progress.is_resolved(*bundle):
            self.member.replay_nack(bundle, nack.attempt, nack.not_before_ns)

    def tidy(self) -> None:
        """Forget blocks below the floor."""
        floor = self.floor
        for number in [each for each in self.blocks if each < floor]:
            self.member.forget_segment(number)
            del self.blocks[number]

    def snapshot(self) -> LaneSnapshot:
        """Give all that counts still."""
        progress = self.member.progress
        return LaneSnapshot(
            self.partition,
            self.floor,
            self.start_ns,
            self.next_number,
            self.next_seq,
            tuple(
                (taken, tuple(progress.resolved_runs(number)))
                for number, taken in self.blocks.items()
            ),
            tuple(
                Nacked(self.partition, *bundle, *nack)
                for bundle, nack in sorted(self.member.nacks.items())
            ),
            tuple(self.letters),
        )

    @classmethod
    def restored(cls, found: LaneSnapshot) -> Lane:
        """Make it what a snapshot says."""
        lane = cls(found.partition, found.floor, start_ns=found.start_ns)
        for taken, runs in found.blocks:
            lane.take(taken)
            for first, count in runs:
                lane.member.resolve(taken.block, first, count)
        lane.next_number, lane.next_seq = found.next_number, found.next_seq
        for nack in found.nacks:
            lane.hold_back(nack)
        lane.letters = list(found.letters)
        lane.tidy()
        return lane

    def _is_past(self, block: int) -> bool:
        """Whether all of a block is done with: what broke off may have been written twice."""
        return block < self.floor and block not in self.member.progress

    def _check(self, block: int, end: int) -> None:
        taken = self.blocks.get(block)
        if taken is None or end > taken.bundle_count:
            raise DamagedEntry(
                f"an outcome is of a bundle that {self.partition} never gave",
                expected=f"block {self.floor} to {self.next_number - 1}",
                found=f"block {block}, bundle {end - 1}",
            )


class Marks:
    """All partitions of a subscriber. Not safe for threads."""

    def __init__(self, *, wants_all: bool) -> None:
        """Begin with none."""
        self.wants_all = wants_all
        self.is_gone = self.is_paused = False
        self.lanes: dict[str, Lane] = {}

    def apply(self, record: Record) -> None:
        """Take in what was written down; DamagedEntry if it makes no sense behind the others."""
        match record:
            case Snapshot():
                self.wants_all, self.is_gone = record.wants_all, record.is_gone
                self.is_paused = record.is_paused
                self.lanes = {each.partition: Lane.restored(each) for each in record.lanes}
            case Joined():
                if record.partition not in self.lanes:
                    place = record.partition, record.floor
                    self.lanes[record.partition] = Lane(
                        *place, start_ns=record.start_ns, next_seq=record.next_seq
                    )
            case Taken():
                self._lane(record).take(record)
            case Acked():
                self._lane(record).resolve(*record[1:])
            case Nacked():
                self._lane(record).hold_back(record)
            case Rejected():
                self._lane(record).give_up(record)

    def snapshot(self) -> Snapshot:
        """Give all that counts still."""
        lanes = tuple(self.lanes[name].snapshot() for name in sorted(self.lanes))
        return Snapshot(self.wants_all, self.is_gone, lanes, self.is_paused)

    def letters(self) -> list[DeadLetter]:
        """Give what was given up, oldest first for each partition."""
        return [
            DeadLetter(each.partition, each.block, *each[3:])
            for lane in self.lanes.values()
            for each in lane.letters
        ]

    def forget_letters(self) -> None:
        """Let go of all that was given up."""
        for lane in self.lanes.values():
            lane.letters.clear()

    def _lane(self, record: Taken | Acked | Nacked | Rejected) -> Lane:
        lane = self.lanes.get(record.partition)
        if lane is None:
            raise DamagedEntry(f"a record is of {record.partition}, which never joined")
        return lane
