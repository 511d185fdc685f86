"""What a subscriber did that the store may not have folded in yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from quiver.acks import NackState, SegmentState
from quiver.acks.inbox import TEXT_BYTES_MAX, DeadLetterState, Inbox
from quiver.engine.start import Position
from quiver.subscriber import Member, Progress
from quiver.subscriber.bundle_set import BundleSet

__all__ = ["Gathered", "mark_of"]


Mark: TypeAlias = tuple[int, int, int]
"""Lease, id of the subscriber, and time of an inbox: no two that are written have all in common."""

Marks: TypeAlias = tuple[Mark, ...]


def mark_of(inbox: Inbox) -> Mark:
    """Give what an inbox is known by."""
    return inbox.lease, inbox.subscriber_id, inbox.at_ns


@dataclass(slots=True)
class Gathered:
    """All of it since the beginning, less what the store has: that is how an inbox is made."""

    subscriber_id: int = 0
    """As the store knows it; 0 until it is registered."""
    start: Position = field(default_factory=Position)
    lease: int = 0
    written: Marks = ()
    """What the inbox is known by: as it was written last, and as it may have been."""
    is_dirty: bool = False
    folded: Progress | None = None
    """How far ack.log said that the subscriber is, when it was last read."""
    dead: dict[tuple[int, int], DeadLetterState] = field(default_factory=dict)

    def give_up(self, bundle: tuple[int, int], attempt: int, outcome: int, *, text: str) -> None:
        """Note that a bundle is a dead letter."""
        short = text.encode(errors="replace")[:TEXT_BYTES_MAX].decode(errors="ignore")
        self.dead[bundle] = DeadLetterState(*bundle, attempt, outcome, short)
        self.is_dirty = True

    def forget(self, segment_seq: int) -> None:
        """Know no more of a segment that was deleted: then all of it is resolved."""
        self.dead = {b: letter for b, letter in self.dead.items() if b[0] != segment_seq}

    def inbox(self, member: Member, *, store_id: str, name: str, at_ns: int) -> Inbox:
        """Say all that the store may not know."""
        return Inbox(
            store_id,
            name,
            self.lease,
            at_ns,
            subscriber_id=self.subscriber_id,
            start_segment_seq=self.start.segment_seq,
            start_bundle_index=self.start.bundle_index,
            segments=tuple(self._segments(member.progress)),
            nacks=tuple(NackState(*bundle, *nack) for bundle, nack in sorted(member.nacks.items())),
            dead_letters=tuple(self.dead[bundle] for bundle in sorted(self.dead)),
            paused=member.paused,
        )

    def _segments(self, progress: Progress) -> list[SegmentState]:
        found = []
        for segment_seq, bundle_count in progress.segments():
            runs = progress.resolved_runs(segment_seq)
            if not runs or self._has(segment_seq, runs):
                continue
            acked = BundleSet(runs)
            for seq, index in self.dead:
                if seq == segment_seq:
                    acked.remove(index)
            if acked.count:
                found.append(SegmentState(segment_seq, bundle_count, tuple(acked.runs())))
        return found

    def _has(self, segment_seq: int, runs: list[tuple[int, int]]) -> bool:
        """Whether the store has all of these runs."""
        folded = self.folded
        return (
            folded is not None
            and segment_seq in folded
            and not any(folded.open_within(segment_seq, *run) for run in runs)
        )
