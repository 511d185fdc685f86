"""Every subscriber of one core: names and ids, claims, outcomes, and what may be deleted.

Nothing here touches a disk. The engine writes an outcome to ack.log first and tells the registry
then; after a restart it restores a snapshot and replays the log's records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from quiver.errors import CapacityError, InputError, SubscriberError
from quiver.subscriber.member import Claim, Member
from quiver.subscriber.order import Order, oldest
from quiver.subscriber.progress import Progress
from quiver.subscriber.snapshot import NackSnapshot, SubscriberSnapshot

__all__ = [
    "SUBSCRIBERS_MAX",
    "Registry",
    "check_name",
]

SUBSCRIBERS_MAX: Final = 0xFFFF
"""Ids are u16 on disk, and 0 is nobody's."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_name(name: object) -> None:
    """Raise SubscriberError unless this may be the name of a subscriber."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise SubscriberError(
            f"subscriber name {name!r} is not allowed",
            hint="letters, digits, dot, dash, underscore; 1 to 128; first a letter or digit; no ..",
        )


class Registry:
    """Subscribers by name, and the segments that are there for them.

    Not safe to use from several threads at once. The engine holds its lock around each call.
    """

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._names: dict[int, str] = {}
        self._top_id = 0
        self._segments: dict[int, int] = {}
        self._needed: dict[int, int] = {}  # By how many a segment is: no entry means by nobody.

    def register(
        self, name: str, subscriber_id: int | None = None, *, start_segment_seq: int = 0
    ) -> int:
        """Add a subscriber, or find it; gives its id.

        A new one gets every segment that is there, and those to come, from ``start_segment_seq``
        on. ``subscriber_id`` is for the replay of a log; without it ``next_id`` is taken.
        """
        check_name(name)
        known = self._members.get(name)
        if known is not None:
            if subscriber_id not in (None, known.subscriber_id):
                raise SubscriberError(
                    f"subscriber {name!r} has id {known.subscriber_id}, not {subscriber_id}"
                )
            return known.subscriber_id
        number = self.next_id() if subscriber_id is None else subscriber_id
        if not 1 <= number <= SUBSCRIBERS_MAX or number in self._names:
            raise SubscriberError(f"subscriber id {number} is taken or not within 1..65535")
        member = self._members[name] = Member(number, start_segment_seq)
        self._names[number] = name
        self._top_id = max(self._top_id, number)
        for segment_seq in sorted(self._segments):
            self._give(member, segment_seq)
        return number

    def next_id(self) -> int:
        """Give the id that a new subscriber would get, so that a log can have it first.

        It is above all ids ever seen here, while there are such: were one used again and damage
        took the record of that, a replay would give its acks to whoever had it before.
        """
        if self._top_id < SUBSCRIBERS_MAX:
            return self._top_id + 1
        for number in range(1, SUBSCRIBERS_MAX + 1):
            if number not in self._names:
                return number
        raise CapacityError(
            f"there are {SUBSCRIBERS_MAX} subscribers already", hint="unregister those not in use"
        )

    def unregister(self, name: str) -> int:
        """Forget a subscriber with all its progress and claims; gives the id that it had."""
        member = self._find(name)
        for segment_seq in member.progress.open_segments:
            self._need_less(segment_seq)
        del self._members[name], self._names[member.subscriber_id]
        return member.subscriber_id

    def rename(self, name: str, new_name: str) -> None:
        """Let a subscriber go on under another name; SubscriberError if somebody has that."""
        check_name(new_name)
        member = self._find(name)
        if new_name in self._members:
            raise SubscriberError(f"there is a subscriber {new_name!r} already")
        del self._members[name]
        self._members[new_name] = member
        self._names[member.subscriber_id] = new_name

    def names(self) -> list[str]:
        """Give the names, in order."""
        return sorted(self._members)

    def __contains__(self, name: object) -> bool:
        """Whether there is a subscriber of that name."""
        return name in self._members

    @property
    def ids(self) -> dict[str, int]:
        """Each name's id, in order of name."""
        return {name: self._members[name].subscriber_id for name in self.names()}

    def name_of(self, subscriber_id: int) -> str:
        """Find the name of an id; SubscriberError if nobody has it."""
        name = self._names.get(subscriber_id)
        if name is None:
            raise SubscriberError(f"no subscriber has id {subscriber_id}")
        return name

    def progress(self, name: str) -> Progress:
        """Give a subscriber's progress, to look at and not to change."""
        return self._find(name).progress

    def member(self, name: str) -> Member:
        """Give all about a subscriber, to look at and not to change."""
        return self._find(name)

    def add_segment(self, segment_seq: int, bundle_count: int) -> None:
        """Offer a segment to every subscriber, those that come later too; twice is once."""
        if self._segments.setdefault(segment_seq, bundle_count) != bundle_count:
            raise InputError(f"segment {segment_seq} cannot have {bundle_count} bundles")
        for member in self._members.values():
            if segment_seq not in member.progress:
                self._give(member, segment_seq)

    def remove_segment(self, segment_seq: int) -> None:
        """Forget a segment that is deleted; a claim in it may still be resolved, to no effect."""
        self._segments.pop(segment_seq, None)
        self._needed.pop(segment_seq, None)
        for member in self._members.values():
            member.forget_segment(segment_seq)

    def segments(self) -> list[tuple[int, int]]:
        """Give the segments that are there as (segment_seq, bundle_count), oldest first."""
        return sorted(self._segments.items())

    def claim(
        self, name: str, now_ns: int, *, order: Order = oldest, limit: int = 1
    ) -> Claim | None:
        """Claim the next bundle, or up to ``limit`` of one segment in a row; None if there is none.

        Not offered is what is resolved, claimed, or waits for a retry, and to one that is paused
        nothing. ``now_ns`` is wall time.
        """
        return self._find(name).claim(now_ns, order, limit)

    def claim_at(self, name: str, segment_seq: int, bundle_index: int) -> Claim:
        """Claim one bundle, even if it waits; SubscriberError if it is resolved or claimed."""
        return self._find(name).claim_at((segment_seq, bundle_index))

    def release(self, claim: Claim) -> None:
        """Give a claim back: its bundles are offered again at once, the attempt not counted."""
        held = self._held(claim)
        if held is not None:
            held.release(claim)

    def nack(self, claim: Claim, not_before_ns: int, *, at_ns: int = 0) -> None:
        """Give a claim back as failed: offered again from a wall time on, as the next attempt."""
        held = self._held(claim)
        if held is not None:
            held.nack(claim, not_before_ns, at_ns=at_ns)

    def holds(self, claim: Claim) -> bool:
        """Whether a claim still stands; SubscriberError if it was given back or resolved.

        False, once, if it was overtaken by a drop, a removal, an unregister.
        """
        return self._held(claim) is not None

    def set_apart(self, claim: Claim) -> None:
        """Offer a claim that stands again, each of its bundles alone."""
        self._members[self._names[claim.subscriber_id]].set_apart(claim)

    def split(self, claim: Claim) -> list[Claim]:
        """Make a claim that stands one of each of its bundles."""
        return self._members[self._names[claim.subscriber_id]].split(claim)

    def settle(self, claim: Claim) -> int:
        """Resolve the bundles of a claim; gives how many, 0 if the claim was overtaken."""
        return self.settle_held(claim) if self.holds(claim) else 0

    def settle_held(self, claim: Claim) -> int:
        """Do the same with a claim that stands, as ``holds`` just said."""
        member = self._members[self._names[claim.subscriber_id]]
        newly = member.settle(claim)
        self._note_finished(member, claim.segment_seq)
        return newly

    def count_dead_letters(self, claim: Claim) -> None:
        """Count the bundles of a claim among those that its subscriber gave up."""
        self._members[self._names[claim.subscriber_id]].dead_letter_count += claim.count

    def resolve(self, name: str, segment_seq: int, first: int, *, count: int = 1) -> int:
        """Resolve bundles ``[first, first + count)``, claimed or not; give how many were open.

        SubscriberError if none was open. Claims on them are overtaken.
        """
        member = self._find(name)
        newly = member.resolve(segment_seq, first, count)
        if not newly:
            raise SubscriberError(f"bundle {first} of segment {segment_seq} was resolved before")
        self._note_finished(member, segment_seq)
        return newly

    def drop(self, name: str, segment_seq: int) -> int:
        """Resolve all that is open in a segment, claims too; give how many bundles that was."""
        member = self._find(name)
        newly = 0
        for first, count in member.progress.open_runs(segment_seq):
            newly += member.resolve(segment_seq, first, count)
        if newly:
            self._note_finished(member, segment_seq)
        return newly

    def next_retry_ns(self, name: str) -> int | None:
        """Give the wall time at which the first waiting bundle is offered; None if none waits."""
        member = self._find(name)
        return None if member.paused else member.offers.next_alarm_ns()

    def finished(self, segment_seq: int) -> bool:
        """Whether a segment may go: somebody is registered, and nobody has anything open in it."""
        is_there = segment_seq in self._segments
        return bool(self._members) and is_there and segment_seq not in self._needed

    def finished_segments(self) -> list[int]:
        """Give all segments that may go, oldest first."""
        if not self._members or len(self._needed) == len(self._segments):
            return []
        return sorted(self._segments.keys() - self._needed.keys())

    def needed_only_by(self, name: str) -> list[int]:
        """Give the segments that may go as soon as this subscriber is no more, oldest first."""
        open_segments = self._find(name).progress.open_segments
        return [seq for seq in open_segments if self._needed.get(seq) == 1]

    def claimed(self, segment_seq: int) -> bool:
        """Whether any subscriber holds a claim in a segment."""
        return segment_seq in self.claimed_segments()

    def claimed_segments(self) -> set[int]:
        """Give the segments in which anybody holds a claim."""
        return {c.segment_seq for m in self._members.values() for c in m.claims.values()}

    def snapshot(self) -> tuple[SubscriberSnapshot, ...]:
        """Copy what must outlive a restart, in order of id. Claims are not of it."""
        return tuple(self._members[name].snapshot(name) for _, name in sorted(self._names.items()))

    def restore(
        self, subscribers: Iterable[SubscriberSnapshot], segments: Mapping[int, int]
    ) -> None:
        """Become what a snapshot says, over the segments that are there now (seq to bundle count).

        Of segments that are gone nothing stays. Where a segment has another bundle count now, the
        segment is right.
        """
        self._members.clear()
        self._names.clear()
        self._needed.clear()
        self._segments = dict(segments)
        for snapshot in subscribers:
            number = snapshot.subscriber_id
            self.replay_register(number, snapshot.name, start_segment_seq=snapshot.floor)
            for segment in snapshot.segments:
                for first, count in segment.runs:
                    self.replay_resolved(number, segment.segment_seq, first, count=count)
            for nack in snapshot.nacks:
                self.replay_nack(number, nack)
            self._members[snapshot.name].restore(snapshot)

    def replay_register(
        self,
        subscriber_id: int,
        name: str,
        *,
        start_segment_seq: int = 0,
        start_bundle_index: int = 0,
    ) -> None:
        """Register as a log says. Whoever has the name or the id has gone, though damage hid it."""
        check_name(name)
        self.replay_unregister(subscriber_id)
        if name in self._members:
            self.unregister(name)
        self.register(name, subscriber_id, start_segment_seq=start_segment_seq)
        if start_bundle_index:
            self.replay_resolved(subscriber_id, start_segment_seq, 0, count=start_bundle_index)

    def replay_unregister(self, subscriber_id: int) -> None:
        """Unregister as a log says; nothing happens if nobody has the id."""
        name = self._names.get(subscriber_id)
        if name is not None:
            self.unregister(name)

    def replay_rename(self, subscriber_id: int, name: str) -> None:
        """Rename as a log says. Whoever else has the name has gone, though damage hid it."""
        known = self._names.get(subscriber_id)
        if known is None or known == name:
            return
        if name in self._members:
            self.unregister(name)
        self.rename(known, name)

    def replay_paused(self, subscriber_id: int, *, paused: bool) -> None:
        """Pause or resume as a log says; nothing happens if nobody has the id."""
        member = self._by_id(subscriber_id)
        if member is not None:
            member.paused = paused

    def replay_lease(self, subscriber_id: int, lease: int) -> None:
        """Let only a lease or a higher one count; nothing happens if nobody has the id."""
        member = self._by_id(subscriber_id)
        if member is not None:
            member.raise_lease(lease)

    def replay_seen(self, subscriber_id: int, at_ns: int) -> None:
        """Note that something of a subscriber was recorded at a time; the latest counts."""
        member = self._by_id(subscriber_id)
        if member is not None:
            member.last_seen_ns = max(member.last_seen_ns, at_ns)

    def replay_resolved(
        self, subscriber_id: int, segment_seq: int, first: int, *, count: int, is_dead: bool = False
    ) -> int:
        """Resolve what a log says was; give how many of the bundles were open.

        An unknown id, a segment that is gone, a bundle that it does not have, and one resolved
        before are all fine. With ``is_dead`` they are counted as dead letters, gone or not.
        """
        member = self._by_id(subscriber_id)
        if member is None:
            return 0
        if is_dead:
            member.dead_letter_count += count
        count = min(count, self._segments.get(segment_seq, 0) - first)
        if count < 1:
            return 0
        newly = member.resolve(segment_seq, first, count)
        if newly:
            self._note_finished(member, segment_seq)
        return newly

    def replay_nack(self, subscriber_id: int, nack: NackSnapshot) -> None:
        """Hold a bundle back as a log says; nothing happens if it is resolved or gone."""
        member = self._by_id(subscriber_id)
        if member is None or nack.bundle_index >= self._segments.get(nack.segment_seq, 0):
            return
        bundle = nack.segment_seq, nack.bundle_index
        if not member.progress.is_resolved(*bundle):
            member.replay_nack(bundle, nack.attempt, nack.not_before_ns, at_ns=nack.at_ns)

    def _find(self, name: str) -> Member:
        member = self._members.get(name)
        if member is None:
            known = ", ".join(self.names()) or "none"
            raise SubscriberError(f"no subscriber {name!r}", hint=f"registered: {known}")
        return member

    def _held(self, claim: Claim) -> Member | None:
        """Find who holds a claim; None if it was overtaken by a drop, a removal, an unregister."""
        member = self._by_id(claim.subscriber_id)
        return member if member is not None and member.holds(claim) else None

    def _by_id(self, subscriber_id: int) -> Member | None:
        name = self._names.get(subscriber_id)
        return None if name is None else self._members[name]

    def _give(self, member: Member, segment_seq: int) -> None:
        if member.add_segment(segment_seq, self._segments[segment_seq]):
            self._needed[segment_seq] = self._needed.get(segment_seq, 0) + 1

    def _note_finished(self, member: Member, segment_seq: int) -> None:
        """Note if it was the last open bundle of a segment that a subscriber just resolved."""
        if not member.progress.outstanding(segment_seq):
            self._need_less(segment_seq)

    def _need_less(self, segment_seq: int) -> None:
        self._needed[segment_seq] -= 1
        if not self._needed[segment_seq]:
            del self._needed[segment_seq]
