"""Several subscribers, runs and orders against dictionaries: no bundle is ever in two places."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quiver.errors import SubscriberError
from quiver.subscriber import NackSnapshot, Ranked, Registry, newest, oldest

NAMES = ["a", "b", "c"]
WHO = st.integers(0, 99)


def rank(segment_seq, index):
    return (segment_seq * 7 + index * 3) % 4


class Twin:
    """What a subscriber must be: its bundles by state, as plainly as can be."""

    def __init__(self, number):
        self.number = number
        self.state = {}  # Bundle to "open", "done", a claim, or the time that it waits for.
        self.attempts = {}
        self.apart = set()
        self.lease = 0
        self.paused = False
        self.ranks = None

    def open_up(self, now_ns):
        for bundle, state in self.state.items():
            if isinstance(state, int) and state <= now_ns:
                self.state[bundle] = "open"

    def claims(self):
        held = {}
        for bundle, state in self.state.items():
            if not isinstance(state, (int, str)):
                held.setdefault(state, []).append(bundle)
        return held


class Members(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.registry = Registry()
        self.counts = {}
        self.twins = {}
        self.held = {}  # Token and id to claim, of those that stand.
        self.lost = []  # Those that were overtaken and not asked for yet.
        self.now_ns = 1000
        self.next_seq = 0

    def some(self, number):
        return sorted(self.twins)[number % len(self.twins)]

    def key(self, claim):
        return claim.subscriber_id, claim.token

    # comes and goes

    @precondition(lambda self: len(self.twins) < len(NAMES))
    @rule(start=st.integers(0, 3), index=st.integers(0, 2))
    def register(self, start, index):
        name = next(name for name in NAMES if name not in self.twins)
        number = self.registry.next_id()
        self.registry.replay_register(
            number, name, start_segment_seq=start, start_bundle_index=index
        )
        twin = self.twins[name] = Twin(number)
        twin.start = start
        for bundle in self.everything():
            skipped = bundle[0] < start or (bundle[0] == start and bundle[1] < index)
            twin.state[bundle] = "done" if skipped else "open"

    def everything(self):
        return [(seq, index) for seq, count in self.counts.items() for index in range(count)]

    @precondition(lambda self: len(self.twins) > 1)
    @rule(number=WHO)
    def unregister(self, number):
        name = self.some(number)
        assert self.registry.unregister(name) == self.twins[name].number
        self.forget_claims(self.twins.pop(name), keep=False)

    @precondition(lambda self: 0 < len(self.twins) < len(NAMES))
    @rule(number=WHO)
    def rename(self, number):
        name, free = self.some(number), next(n for n in NAMES if n not in self.twins)
        self.registry.rename(name, free)
        self.twins[free] = self.twins.pop(name)

    @rule(count=st.integers(1, 6), skip=st.integers(1, 2))
    def add_segment(self, count, skip):
        self.registry.add_segment(self.next_seq, count)
        self.counts[self.next_seq] = count
        for twin in self.twins.values():
            first = "done" if self.next_seq < twin.start else "open"
            twin.state |= {(self.next_seq, index): first for index in range(count)}
        self.next_seq += skip

    @precondition(lambda self: self.counts)
    @rule(number=WHO)
    def remove_segment(self, number):
        seq = sorted(self.counts)[number % len(self.counts)]
        self.registry.remove_segment(seq)
        del self.counts[seq]
        for twin in self.twins.values():
            self.overtake(twin, {b for b in twin.state if b[0] == seq})
            twin.state = {b: s for b, s in twin.state.items() if b[0] != seq}
            twin.attempts = {b: n for b, n in twin.attempts.items() if b[0] != seq}
            twin.apart = {b for b in twin.apart if b[0] != seq}

    def overtake(self, twin, bundles):
        for token, inside in twin.claims().items():
            if not bundles.isdisjoint(inside):
                self.lost.append(self.held.pop(token))
                twin.state |= dict.fromkeys(inside, "open")

    def forget_claims(self, twin, *, keep):
        for token in [token for token in self.held if token[0] == twin.number]:
            claim = self.held.pop(token)
            if keep:
                self.lost.append(claim)
        if not keep:
            self.lost = [claim for claim in self.lost if claim.subscriber_id != twin.number]
        for bundle, state in twin.state.items():
            if not isinstance(state, (int, str)):
                twin.state[bundle] = "open"

    # takes and gives

    @precondition(lambda self: self.twins)
    @rule(
        number=WHO,
        step=st.integers(0, 20),
        limit=st.sampled_from([1, 1, 2, 3, 100]),
        order=st.sampled_from(["oldest", "newest", "ranked"]),
    )
    def claim(self, number, step, limit, order):
        self.now_ns += step
        name = self.some(number)
        twin = self.twins[name]
        orders = {"oldest": oldest, "newest": newest, "ranked": self.ranked(twin)}
        claim = self.registry.claim(name, self.now_ns, order=orders[order], limit=limit)
        if twin.paused:
            assert claim is None
            return
        twin.open_up(self.now_ns)
        expected = self.expected(twin, order, limit)
        assert (None if claim is None else claim.run) == expected
        if claim is not None:
            self.note(twin, claim)

    def ranked(self, twin):
        if twin.ranks is None:
            twin.ranks = Ranked(
                lambda seq: [(rank(seq, index), index, 1) for index in range(self.counts[seq])]
            )
        return twin.ranks

    def expected(self, twin, order, limit):
        ready = sorted(bundle for bundle, state in twin.state.items() if state == "open")
        if not ready:
            return None
        if order == "ranked":
            first = min(ready, key=lambda bundle: (-rank(*bundle), bundle))
            return *first, 1
        seq = ready[0][0] if order == "oldest" else ready[-1][0]
        index = min(bundle[1] for bundle in ready if bundle[0] == seq)
        count = 1
        while (
            count < limit
            and (seq, index) not in twin.apart
            and (seq, index + count) in ready
            and (seq, index + count) not in twin.apart
        ):
            count += 1
        return seq, index, count

    def note(self, twin, claim):
        inside = self.inside(claim)
        assert claim.attempt == twin.attempts.get(inside[0], 0) + 1
        assert len(inside) == 1 or not any(bundle in twin.attempts for bundle in inside)
        assert all(twin.state[bundle] != "done" for bundle in inside)
        twin.state |= dict.fromkeys(inside, self.key(claim))
        self.held[self.key(claim)] = claim

    def inside(self, claim):
        seq, first, count = claim.run
        return [(seq, index) for index in range(first, first + count)]

    @precondition(lambda self: self.twins and self.counts)
    @rule(number=WHO, which=WHO)
    def claim_at(self, number, which):
        name = self.some(number)
        twin = self.twins[name]
        bundle = sorted(twin.state)[which % len(twin.state)]
        state = twin.state[bundle]
        if state == "open" or isinstance(state, int):
            self.note(twin, self.registry.claim_at(name, *bundle))
            return
        try:
            self.registry.claim_at(name, *bundle)
        except SubscriberError:
            return
        raise AssertionError(state)

    def pick(self, number):
        key = sorted(self.held)[number % len(self.held)]
        claim = self.held.pop(key)
        twin = next(t for t in self.twins.values() if t.number == claim.subscriber_id)
        assert self.registry.holds(claim)
        return claim, twin, self.inside(claim)

    @precondition(lambda self: self.held)
    @rule(number=WHO)
    def settle(self, number):
        claim, twin, inside = self.pick(number)
        assert self.registry.settle(claim) == len(inside)
        self.finish(twin, inside)

    def finish(self, twin, bundles):
        for bundle in bundles:
            twin.state[bundle] = "done"
            twin.attempts.pop(bundle, None)
            twin.apart.discard(bundle)

    @precondition(lambda self: self.held)
    @rule(number=WHO, wait=st.integers(-5, 40))
    def nack(self, number, wait):
        claim, twin, inside = self.pick(number)
        self.registry.nack(claim, self.now_ns + wait)
        for bundle in inside:
            twin.state[bundle] = self.now_ns + wait
            twin.attempts[bundle] = claim.attempt
            twin.apart.add(bundle)

    @precondition(lambda self: self.held)
    @rule(number=WHO)
    def release(self, number):
        claim, twin, inside = self.pick(number)
        self.registry.release(claim)
        twin.state |= dict.fromkeys(inside, "open")

    @precondition(lambda self: self.held)
    @rule(number=WHO)
    def set_apart(self, number):
        claim, twin, inside = self.pick(number)
        self.registry.set_apart(claim)
        twin.state |= dict.fromkeys(inside, "open")
        twin.apart |= set(inside)

    @precondition(lambda self: self.held)
    @rule(number=WHO)
    def split(self, number):
        claim, twin, inside = self.pick(number)
        attempt = claim.attempt
        for bundle, part in zip(inside, self.registry.split(claim), strict=True):
            assert (part.run, part.attempt) == ((*bundle, 1), attempt)
            self.note(twin, part)

    # over their heads

    @precondition(lambda self: self.twins and self.counts)
    @rule(number=WHO, which=WHO, count=st.integers(1, 4))
    def resolve(self, number, which, count):
        twin = self.twins[self.some(number)]
        seq, first = sorted(twin.state)[which % len(twin.state)]
        run = {(seq, index) for index in range(first, min(first + count, self.counts[seq]))}
        newly = {bundle for bundle in run if twin.state[bundle] != "done"}
        found = self.registry.replay_resolved(twin.number, seq, first, count=count)
        assert found == len(newly)
        if newly:
            self.overtake(twin, run)
            self.finish(twin, newly)

    @precondition(lambda self: self.twins and self.counts)
    @rule(number=WHO, which=WHO)
    def drop(self, number, which):
        name = self.some(number)
        twin, seq = self.twins[name], sorted(self.counts)[which % len(self.counts)]
        newly = {b for b, state in twin.state.items() if b[0] == seq and state != "done"}
        assert self.registry.drop(name, seq) == len(newly)
        self.overtake(twin, newly)
        self.finish(twin, newly)

    @precondition(lambda self: self.twins and self.counts)
    @rule(number=WHO, which=WHO, attempt=st.integers(1, 9), wait=st.integers(-5, 40))
    def nack_of_another_process(self, number, which, attempt, wait):
        twin = self.twins[self.some(number)]
        bundle = sorted(twin.state)[which % len(twin.state)]
        self.registry.replay_nack(twin.number, NackSnapshot(*bundle, attempt, self.now_ns + wait))
        if twin.state[bundle] != "done":
            self.overtake(twin, {bundle})
            twin.state[bundle] = self.now_ns + wait
            twin.attempts[bundle] = attempt
            twin.apart.add(bundle)

    @precondition(lambda self: self.twins)
    @rule(number=WHO, lease=st.integers(0, 9))
    def raise_lease(self, number, lease):
        twin = self.twins[self.some(number)]
        self.registry.replay_lease(twin.number, lease)
        if lease > twin.lease:
            twin.lease = lease
            self.forget_claims(twin, keep=True)

    @precondition(lambda self: self.twins)
    @rule(number=WHO, paused=st.booleans())
    def pause(self, number, paused):
        twin = self.twins[self.some(number)]
        self.registry.replay_paused(twin.number, paused=paused)
        twin.paused = paused

    @precondition(lambda self: self.lost)
    @rule(number=WHO)
    def resolve_what_was_overtaken(self, number):
        claim = self.lost.pop(number % len(self.lost))
        assert self.registry.settle(claim) == 0

    @rule()
    def restart(self):
        snapshot = self.registry.snapshot()
        self.registry = Registry()
        self.registry.restore(snapshot, self.counts)
        for twin in self.twins.values():
            self.forget_claims(twin, keep=False)
            twin.apart = set(twin.attempts)
            twin.ranks = None
            member = self.registry.member(self.registry.name_of(twin.number))
            for bundle, (_, due_ns) in member.nacks.items():
                twin.state[bundle] = due_ns
        assert self.registry.snapshot() == snapshot

    @invariant()
    def every_open_bundle_is_in_one_place(self):
        for name, twin in self.twins.items():
            member = self.registry.member(name)
            progress, offers = member.progress, member.offers
            still = {bundle for bundle, state in twin.state.items() if state != "done"}
            assert {(s, n) for s, f, c in progress.gaps() for n in range(f, f + c)} == still
            assert progress.lag == len(still)
            claimed = [bundle for claim in member.claims.values() for bundle in self.inside(claim)]
            waiting = set(offers.waiting)
            offered = {b for b in still if offers.offered_in(b[0], b[1], b[1] + 1)}
            assert len(claimed) == len(set(claimed))
            assert set(claimed) | waiting | offered == still
            assert len(claimed) + len(waiting) + len(offered) == len(still)
            assert set(offers.ready) == {bundle[0] for bundle in offered}
            assert {self.key(c) for c in member.claims.values()} == set(twin.claims())
            assert (member.lease, member.paused) == (twin.lease, twin.paused)
            assert {b: n for b, (n, _) in member.nacks.items()} == twin.attempts

    @invariant()
    def a_segment_may_go_once_nobody_needs_it(self):
        done = [
            seq
            for seq in sorted(self.counts)
            if self.twins
            and all(
                s == "done" for t in self.twins.values() for b, s in t.state.items() if b[0] == seq
            )
        ]
        assert self.registry.finished_segments() == done


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
