"""Every subscriber of one core: names and ids, claims, outcomes, and what may be deleted.

Nothing here touches a disk. The engine writes an outcome to ack.log first and tells the registry
then; after a restart it restores a snapshot and replays the log's records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quiver.errors import CapacityError, InputError, SubscriberError
from quiver.subscriber.offers import Bundle, Offers
from quiver.subscriber.progress import Progress
from quiver.subscriber.snapshot import NackSnapshot, SegmentSnapshot, SubscriberSnapshot

__all__ = [
    "SUBSCRIBERS_MAX",
    "Claim",
    "Registry",
    "check_name",
]

SUBSCRIBERS_MAX: Final = 0xFFFF
"""Ids are u16 on disk, and 0 is nobody's."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Claim:
    """One bundle in one subscriber's hands; ``attempt`` counts from 1, deferred ones not."""

    subscriber_id: int
    segment_seq: int
    bundle_index: int
    attempt: int


@dataclass(slots=True)
class _Subscriber:
    subscriber_id: int
    progress: Progress
    offers: Offers = field(default_factory=Offers)
    nacks: dict[Bundle, tuple[int, int]] = field(default_factory=dict)
    abandoned: set[Bundle] = field(default_factory=set)


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
        self._subscribers: dict[str, _Subscriber] = {}
        self._names: dict[int, str] = {}
        self._top_id = 0
        self._segments: dict[int, int] = {}

    def register(
        self, name: str, subscriber_id: int | None = None, *, start_segment_seq: int = 0
    ) -> int:
        """Add a subscriber, or find it; gives its id.

        A new one gets every segment that is there, and those to come, from ``start_segment_seq``
        on. ``subscriber_id`` is for the replay of a log; without it ``next_id`` is taken.
        """
        check_name(name)
        known = self._subscribers.get(name)
        if known is not None:
            if subscriber_id not in (None, known.subscriber_id):
                raise SubscriberError(
                    f"subscriber {name!r} has id {known.subscriber_id}, not {subscriber_id}"
                )
            return known.subscriber_id
        number = self.next_id() if subscriber_id is None else subscriber_id
        if not 1 <= number <= SUBSCRIBERS_MAX or number in self._names:
            raise SubscriberError(f"subscriber id {number} is taken or not within 1..65535")
        subscriber = _Subscriber(number, Progress(start_segment_seq))
        self._join(name, subscriber)
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
        subscriber = self._find(name)
        del self._subscribers[name], self._names[subscriber.subscriber_id]
        return subscriber.subscriber_id

    def names(self) -> list[str]:
        """Give the names, in order."""
        return sorted(self._subscribers)

    @property
    def ids(self) -> dict[str, int]:
        """Each name's id, in order of name."""
        return {name: self._subscribers[name].subscriber_id for name in self.names()}

    def name_of(self, subscriber_id: int) -> str:
        """Find the name of an id; SubscriberError if nobody has it."""
        name = self._names.get(subscriber_id)
        if name is None:
            raise SubscriberError(f"no subscriber has id {subscriber_id}")
        return name

    def progress(self, name: str) -> Progress:
        """Give a subscriber's progress, to look at and not to change."""
        return self._find(name).progress

    def add_segment(self, segment_seq: int, bundle_count: int) -> None:
        """Offer a segment to every subscriber, those that come later too; twice is once."""
        if self._segments.setdefault(segment_seq, bundle_count) != bundle_count:
            raise InputError(f"segment {segment_seq} cannot have {bundle_count} bundles")
        for subscriber in self._subscribers.values():
            if segment_seq not in subscriber.progress:
                _give(subscriber, segment_seq, bundle_count)

    def remove_segment(self, segment_seq: int) -> None:
        """Forget a segment that is deleted; a claim in it may still be resolved, to no effect."""
        self._segments.pop(segment_seq, None)
        for subscriber in self._subscribers.values():
            subscriber.abandoned |= subscriber.offers.forget_segment(segment_seq)
            subscriber.progress.forget_segment(segment_seq)
            subscriber.nacks = {b: n for b, n in subscriber.nacks.items() if b[0] != segment_seq}

    def segments(self) -> list[tuple[int, int]]:
        """Give the segments that are there as (segment_seq, bundle_count), oldest first."""
        return sorted(self._segments.items())

    def claim(self, name: str, now_ns: int) -> Claim | None:
        """Claim the next bundle: oldest segment first, lowest index first; None if there is none.

        Not offered is what is resolved, claimed, or waits for a retry. ``now_ns`` is wall time.
        """
        subscriber = self._find(name)
        bundle = subscriber.offers.take(now_ns)
        return None if bundle is None else _claim(subscriber, bundle)

    def claim_at(self, name: str, segment_seq: int, bundle_index: int) -> Claim:
        """Claim one bundle, even if it waits; SubscriberError if it is resolved or claimed."""
        subscriber = self._find(name)
        bundle = segment_seq, bundle_index
        resolved = subscriber.progress.is_resolved(*bundle)
        if resolved or not subscriber.offers.take_at(bundle):
            state = "resolved" if resolved else "claimed"
            raise SubscriberError(f"bundle {bundle_index} of segment {segment_seq} is {state}")
        return _claim(subscriber, bundle)

    def release(self, claim: Claim) -> None:
        """Give a claim back: the bundle is offered again at once, its attempt not counted."""
        held = self._held(claim)
        if held is not None:
            held.offers.give_back((claim.segment_seq, claim.bundle_index))

    def nack(self, claim: Claim, not_before_ns: int) -> None:
        """Give a claim back as failed: offered again from a wall time on, as the next attempt."""
        held = self._held(claim)
        if held is not None:
            bundle = claim.segment_seq, claim.bundle_index
            held.nacks[bundle] = claim.attempt, not_before_ns
            held.offers.wait(bundle, not_before_ns)

    def resolve(self, name: str, segment_seq: int, first: int, *, count: int = 1) -> int:
        """Resolve bundles ``[first, first + count)``, claimed or not; give how many were open.

        SubscriberError if none was open; but a bundle whose claim was overtaken by ``drop`` or
        ``remove_segment`` gives 0, once.
        """
        subscriber = self._find(name)
        if count == 1 and (segment_seq, first) in subscriber.abandoned:
            subscriber.abandoned.remove((segment_seq, first))
            return 0
        newly = subscriber.progress.resolve(segment_seq, first, count)
        if not newly:
            raise SubscriberError(f"bundle {first} of segment {segment_seq} was resolved before")
        _settle(subscriber, segment_seq, first, count=count)
        return newly

    def drop(self, name: str, segment_seq: int) -> int:
        """Resolve all that is open in a segment, claims too; give how many bundles that was."""
        subscriber = self._find(name)
        newly = 0
        for first, count in subscriber.progress.open_runs(segment_seq):
            newly += subscriber.progress.resolve(segment_seq, first, count)
            subscriber.abandoned |= _settle(subscriber, segment_seq, first, count=count)
        return newly

    def next_retry_ns(self, name: str) -> int | None:
        """Give the wall time at which the first waiting bundle is offered; None if none waits."""
        return self._find(name).offers.next_alarm_ns()

    def finished(self, segment_seq: int) -> bool:
        """Whether a segment may go: somebody is registered, and nobody has anything open in it."""
        return (
            bool(self._subscribers)
            and segment_seq in self._segments
            and not any(s.progress.outstanding(segment_seq) for s in self._subscribers.values())
        )

    def claimed(self, segment_seq: int) -> bool:
        """Whether any subscriber holds a claim in a segment."""
        return any(
            bundle[0] == segment_seq
            for subscriber in self._subscribers.values()
            for bundle in subscriber.offers.claimed
        )

    def snapshot(self) -> tuple[SubscriberSnapshot, ...]:
        """Copy what must outlive a restart, in order of id. Claims are not of it."""
        return tuple(
            _snapshot(name, self._subscribers[name]) for _, name in sorted(self._names.items())
        )

    def restore(
        self, subscribers: Iterable[SubscriberSnapshot], segments: Mapping[int, int]
    ) -> None:
        """Become what a snapshot says, over the segments that are there now (seq to bundle count).

        Of segments that are gone nothing stays. Where a segment has another bundle count now, the
        segment is right.
        """
        self._subscribers.clear()
        self._names.clear()
        self._segments = dict(segments)
        for snapshot in subscribers:
            number = snapshot.subscriber_id
            self.replay_register(number, snapshot.name, start_segment_seq=snapshot.floor)
            for segment in snapshot.segments:
                for first, count in segment.runs:
                    self.replay_resolved(number, segment.segment_seq, first, count=count)
            for nack in snapshot.nacks:
                self.replay_nack(number, nack)

    def replay_register(self, subscriber_id: int, name: str, *, start_segment_seq: int = 0) -> None:
        """Register as a log says. Whoever has the name or the id has gone, though damage hid it."""
        check_name(name)
        self.replay_unregister(subscriber_id)
        if name in self._subscribers:
            self.unregister(name)
        self.register(name, subscriber_id, start_segment_seq=start_segment_seq)

    def replay_unregister(self, subscriber_id: int) -> None:
        """Unregister as a log says; nothing happens if nobody has the id."""
        name = self._names.get(subscriber_id)
        if name is not None:
            self.unregister(name)

    def replay_resolved(
        self, subscriber_id: int, segment_seq: int, first: int, *, count: int
    ) -> int:
        """Resolve what a log says was; give how many of the bundles were open.

        An unknown id, a segment that is gone, a bundle that it does not have, and one resolved
        before are all fine.
        """
        name = self._names.get(subscriber_id)
        count = min(count, self._segments.get(segment_seq, 0) - first)
        if name is None or count < 1:
            return 0
        subscriber = self._subscribers[name]
        newly = subscriber.progress.resolve(segment_seq, first, count)
        _settle(subscriber, segment_seq, first, count=count)
        return newly

    def replay_nack(self, subscriber_id: int, nack: NackSnapshot) -> None:
        """Hold a bundle back as a log says; nothing happens if it is resolved or gone."""
        name = self._names.get(subscriber_id)
        if name is None or nack.bundle_index >= self._segments.get(nack.segment_seq, 0):
            return
        subscriber = self._subscribers[name]
        bundle = nack.segment_seq, nack.bundle_index
        if not subscriber.progress.is_resolved(*bundle):
            subscriber.nacks[bundle] = nack.attempt, nack.not_before_ns
            subscriber.offers.wait(bundle, nack.not_before_ns)

    def _find(self, name: str) -> _Subscriber:
        subscriber = self._subscribers.get(name)
        if subscriber is None:
            known = ", ".join(self.names()) or "none"
            raise SubscriberError(f"no subscriber {name!r}", hint=f"registered: {known}")
        return subscriber

    def _join(self, name: str, subscriber: _Subscriber) -> None:
        self._subscribers[name] = subscriber
        self._names[subscriber.subscriber_id] = name
        self._top_id = max(self._top_id, subscriber.subscriber_id)
        for segment_seq, bundle_count in self._segments.items():
            _give(subscriber, segment_seq, bundle_count)

    def _held(self, claim: Claim) -> _Subscriber | None:
        """Find who holds a claim; None if it was overtaken by a drop, a removal, an unregister."""
        name = self._names.get(claim.subscriber_id)
        if name is None:
            return None
        subscriber = self._subscribers[name]
        bundle = claim.segment_seq, claim.bundle_index
        if bundle in subscriber.abandoned:
            subscriber.abandoned.remove(bundle)
            return None
        if bundle not in subscriber.offers.claimed:
            raise SubscriberError(
                f"bundle {claim.bundle_index} of segment {claim.segment_seq} is not claimed"
            )
        return subscriber


def _give(subscriber: _Subscriber, segment_seq: int, bundle_count: int) -> None:
    subscriber.progress.add_segment(segment_seq, bundle_count)
    resolved = subscriber.progress.resolved_runs(segment_seq)
    subscriber.offers.add_segment(segment_seq, bundle_count, resolved)


def _claim(subscriber: _Subscriber, bundle: Bundle) -> Claim:
    failed, _ = subscriber.nacks.get(bundle, (0, 0))
    return Claim(subscriber.subscriber_id, *bundle, attempt=failed + 1)


def _settle(subscriber: _Subscriber, segment_seq: int, first: int, *, count: int) -> set[Bundle]:
    """Stop offering resolved bundles; give what of them was claimed."""
    if count == 1:
        subscriber.nacks.pop((segment_seq, first), None)
    else:
        inside = range(first, first + count)
        gone = [b for b in subscriber.nacks if b[0] == segment_seq and b[1] in inside]
        for bundle in gone:
            del subscriber.nacks[bundle]
    return subscriber.offers.settle(segment_seq, first, count)


def _snapshot(name: str, subscriber: _Subscriber) -> SubscriberSnapshot:
    progress = subscriber.progress
    segments = (
        SegmentSnapshot(seq, count, tuple(progress.resolved_runs(seq)))
        for seq, count in progress.segments()
        if seq >= progress.floor
    )
    return SubscriberSnapshot(
        subscriber.subscriber_id,
        name,
        progress.floor,
        tuple(segment for segment in segments if segment.runs),
        tuple(NackSnapshot(*bundle, *nack) for bundle, nack in sorted(subscriber.nacks.items())),
    )
