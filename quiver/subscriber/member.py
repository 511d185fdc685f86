"""One subscriber: its progress, what it may be given, and what is in its hands."""

from __future__ import annotations

from dataclasses import dataclass, field

from quiver.errors import SubscriberError
from quiver.subscriber.offers import Bundle, Offers, Run
from quiver.subscriber.order import Order
from quiver.subscriber.progress import Progress
from quiver.subscriber.snapshot import NackSnapshot, SegmentSnapshot, SubscriberSnapshot

__all__ = ["Claim", "Member"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Bundles ``[bundle_index, bundle_index + count)`` in one subscriber's hands.

    ``attempt`` counts from 1, deferred deliveries not; more than one bundle is always the first
    attempt. No two claims ever have the same ``token``.
    """

    subscriber_id: int
    segment_seq: int
    bundle_index: int
    attempt: int
    count: int = 1
    token: int = field(default=0, compare=False)

    @property
    def run(self) -> Run:
        """The bundles."""
        return self.segment_seq, self.bundle_index, self.count


class Member:
    """All about one subscriber; the registry keeps what concerns several."""

    def __init__(self, subscriber_id: int, floor: int = 0) -> None:
        """Start with every segment below ``floor`` finished and none known."""
        self.subscriber_id = subscriber_id
        self.progress = Progress(floor)
        self.paused = False
        self.last_seen_ns = 0
        self.dead_letter_count = 0
        self.lease = 0
        self.offers = Offers(self.progress)
        self.nacks: dict[Bundle, tuple[int, int]] = {}
        self.claims: dict[int, Claim] = {}
        self._overtaken: set[int] = set()
        self._next_token = 1

    def add_segment(self, segment_seq: int, bundle_count: int) -> bool:
        """Get a segment, unless it is known; give whether anything in it is open."""
        is_new = segment_seq not in self.progress
        is_open = self.progress.add_segment(segment_seq, bundle_count)
        if is_new and is_open:
            self.offers.add_segment(segment_seq)
        return is_open

    def forget_segment(self, segment_seq: int) -> bool:
        """Know no more of a segment; give whether anything in it was open."""
        if segment_seq not in self.progress:
            return False
        self._overtake(segment_seq, 0, self.progress.bundle_count(segment_seq))
        if self.progress.outstanding(segment_seq):
            self.offers.forget_segment(segment_seq)
        self.nacks = {b: n for b, n in self.nacks.items() if b[0] != segment_seq}
        return self.progress.forget_segment(segment_seq)

    def claim(self, now_ns: int, order: Order, limit: int) -> Claim | None:
        """Claim what comes next, up to ``limit`` bundles in a row."""
        run = None if self.paused else self.offers.take(now_ns, order=order, limit=limit)
        return None if run is None else self._note(run)

    def claim_at(self, bundle: Bundle) -> Claim:
        """Claim one bundle, even if it waits; SubscriberError if it is resolved or claimed."""
        resolved = self.progress.is_resolved(*bundle)
        if resolved or not self.offers.take_at(bundle):
            state = "resolved" if resolved else "claimed"
            raise SubscriberError(f"bundle {bundle[1]} of segment {bundle[0]} is {state}")
        return self._note((*bundle, 1))

    def holds(self, claim: Claim) -> bool:
        """Whether a claim still stands; SubscriberError if it was given back or resolved.

        False, once, if it was overtaken: by a drop, or because its segment was removed.
        """
        if claim.token in self.claims:
            return True
        if claim.token in self._overtaken:
            self._overtaken.remove(claim.token)
            return False
        raise SubscriberError(
            f"bundle {claim.bundle_index} of segment {claim.segment_seq} is not claimed"
        )

    def release(self, claim: Claim) -> None:
        """Offer a claim that stands again, at once."""
        del self.claims[claim.token]
        self.offers.give_back(claim.run)

    def see(self, now_ns: int) -> None:
        """Note what time it is by the wall clock, as far as it is known; 0 is not.

        If that was set back, what waits is moved with it: a delay is no longer than it was.
        """
        if not now_ns:
            return
        back_ns = self.last_seen_ns - now_ns
        self.last_seen_ns = now_ns
        if back_ns > 0:
            self.nacks = {b: (n, max(due - back_ns, 0)) for b, (n, due) in self.nacks.items()}
            self.offers.move_alarms(back_ns)

    def nack(self, claim: Claim, not_before_ns: int, *, at_ns: int = 0) -> None:
        """Offer each bundle of a claim that stands again from a wall time on."""
        self.see(at_ns)
        del self.claims[claim.token]
        for index in range(claim.bundle_index, claim.bundle_index + claim.count):
            self.hold_back((claim.segment_seq, index), claim.attempt, not_before_ns)

    def hold_back(self, bundle: Bundle, attempt: int, not_before_ns: int) -> None:
        """Offer an open bundle from a wall time on, as one of which an attempt failed."""
        self.nacks[bundle] = attempt, not_before_ns
        self.offers.wait(bundle, not_before_ns)

    def replay_nack(
        self, bundle: Bundle, attempt: int, not_before_ns: int, *, at_ns: int = 0
    ) -> None:
        """Do the same to one that may be in somebody's hands: that claim is overtaken."""
        self.see(at_ns)
        self._overtake(*bundle, 1)
        self.hold_back(bundle, attempt, not_before_ns)

    def set_apart(self, claim: Claim) -> None:
        """Offer a claim that stands again, each of its bundles alone."""
        self.offers.set_apart(claim.run)
        self.release(claim)

    def split(self, claim: Claim) -> list[Claim]:
        """Make a claim that stands one of each of its bundles."""
        del self.claims[claim.token]
        segment_seq, first, count = claim.run
        return [self._note((segment_seq, index, 1)) for index in range(first, first + count)]

    def settle(self, claim: Claim) -> int:
        """Resolve the bundles of a claim that stands; give how many that are."""
        del self.claims[claim.token]
        segment_seq, first, count = claim.segment_seq, claim.bundle_index, claim.count
        newly = self.progress.resolve(segment_seq, first, count)
        self.offers.settle_taken(segment_seq, first, count)
        self._forget_nacks(segment_seq, first, count)
        return newly

    def resolve(self, segment_seq: int, first: int, count: int) -> int:
        """Resolve bundles, whoever has them; give how many were open. Claims on them are overtaken.

        What else such a claim holds is offered again.
        """
        newly = self.progress.resolve(segment_seq, first, count)
        if newly:
            self.offers.settle(segment_seq, first, count)
            self._forget_nacks(segment_seq, first, count)
        self._overtake(segment_seq, first, count)
        return newly

    def raise_lease(self, lease: int) -> None:
        """Let only a higher lease count from now on: what was claimed is offered again."""
        if lease <= self.lease:
            return
        self.lease = lease
        for claim in list(self.claims.values()):
            self._overtake(*claim.run)

    def _forget_nacks(self, segment_seq: int, first: int, count: int) -> None:
        if not self.nacks:
            return
        if count == 1:
            self.nacks.pop((segment_seq, first), None)
            return
        inside = range(first, first + count)
        for bundle in [b for b in self.nacks if b[0] == segment_seq and b[1] in inside]:
            del self.nacks[bundle]

    def _overtake(self, segment_seq: int, first: int, count: int) -> None:
        """Take claims that touch a run from whoever has them."""
        stop = first + count
        for claim in list(self.claims.values()):
            end = claim.bundle_index + claim.count
            if claim.segment_seq != segment_seq or claim.bundle_index >= stop or end <= first:
                continue
            del self.claims[claim.token]
            self._overtaken.add(claim.token)
            for run in self.progress.open_runs(segment_seq):
                low, high = max(run[0], claim.bundle_index), min(sum(run), end)
                if low < high:
                    self.offers.give_back((segment_seq, low, high - low))

    def _note(self, run: Run) -> Claim:
        failed, _ = self.nacks.get(run[:2], (0, 0))
        segment_seq, first, count = run
        token = self._next_token
        self._next_token += 1
        claim = Claim(self.subscriber_id, segment_seq, first, failed + 1, count, token)
        self.claims[token] = claim
        return claim

    def snapshot(self, name: str) -> SubscriberSnapshot:
        """Copy what must outlive a restart. Claims are not of it."""
        progress = self.progress
        return SubscriberSnapshot(
            self.subscriber_id,
            name,
            progress.floor,
            tuple(
                SegmentSnapshot(seq, progress.bundle_count(seq), tuple(progress.resolved_runs(seq)))
                for seq in progress.begun_segments()
            ),
            tuple(NackSnapshot(*bundle, *nack) for bundle, nack in sorted(self.nacks.items())),
            paused=self.paused,
            last_seen_ns=self.last_seen_ns,
            dead_letter_count=self.dead_letter_count,
            lease=self.lease,
        )

    def restore(self, snapshot: SubscriberSnapshot) -> None:
        """Take over what a snapshot says beside progress and nacks."""
        self.paused = snapshot.paused
        self.last_seen_ns = snapshot.last_seen_ns
        self.dead_letter_count = snapshot.dead_letter_count
        self.lease = snapshot.lease
