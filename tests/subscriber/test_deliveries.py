"""Any run of claims, outcomes, drops and restarts against a dictionary of states."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quiver.subscriber import Registry


def place(claim):
    return None if claim is None else (claim.segment_seq, claim.bundle_index)


class Deliveries(RuleBasedStateMachine):
    """One subscriber against a dictionary from bundle to state."""

    def __init__(self):
        super().__init__()
        self.registry = Registry()
        self.registry.register("a")
        self.state = {}
        self.attempts = {}
        self.claims = []
        self.now_ns = 0
        self.next_seq = 0

    @rule(count=st.integers(1, 4), skip=st.integers(1, 3))
    def add_segment(self, count, skip):
        self.registry.add_segment(self.next_seq, count)
        self.state |= {(self.next_seq, index): "open" for index in range(count)}
        self.next_seq += skip

    @rule(step=st.integers(0, 20))
    def claim(self, step):
        self.now_ns += step
        for bundle, state in self.state.items():
            if isinstance(state, int) and state <= self.now_ns:
                self.state[bundle] = "open"
        ready = [bundle for bundle, state in self.state.items() if state == "open"]
        claim = self.registry.claim("a", self.now_ns)
        assert place(claim) == (min(ready) if ready else None)
        if claim is not None:
            assert claim.attempt == self.attempts.get(place(claim), 0) + 1
            self.state[place(claim)] = "claimed"
            self.claims.append(claim)

    def _pick(self, number):
        return self.claims.pop(number % len(self.claims))

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 99))
    def ack(self, number):
        claim = self._pick(number)
        assert self.registry.resolve("a", *place(claim)) == 1
        self.state[place(claim)] = "resolved"

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 99), wait=st.integers(0, 40))
    def nack(self, number, wait):
        claim = self._pick(number)
        self.registry.nack(claim, self.now_ns + wait)
        self.state[place(claim)] = self.now_ns + wait
        self.attempts[place(claim)] = claim.attempt

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(0, 99))
    def defer(self, number):
        claim = self._pick(number)
        self.registry.release(claim)
        self.state[place(claim)] = "open"

    @precondition(lambda self: self.state)
    @rule(number=st.integers(0, 99))
    def drop(self, number):
        seq = sorted(self.state)[number % len(self.state)][0]
        here = {b for b, s in self.state.items() if b[0] == seq and s != "resolved"}
        assert self.registry.drop("a", seq) == len(here)
        for claim in [c for c in self.claims if place(c) in here]:
            self.claims.remove(claim)
            assert self.registry.settle(claim) == 0
        self.state |= dict.fromkeys(here, "resolved")

    @rule()
    def restart(self):
        counts = dict(self.registry.segments())
        snapshot = self.registry.snapshot()
        self.registry = Registry()
        self.registry.restore(snapshot, counts)
        self.claims.clear()
        dues = {(n.segment_seq, n.bundle_index): n.not_before_ns for n in snapshot[0].nacks}
        for bundle, state in self.state.items():
            if state != "resolved":
                self.state[bundle] = dues.get(bundle, "open")

    @invariant()
    def marks_are_right(self):
        still = [bundle for bundle, state in self.state.items() if state != "resolved"]
        progress = self.registry.progress("a")
        assert progress.lag == len(still)
        if still:
            assert progress.floor == min(still)[0]
        waits = [state for state in self.state.values() if isinstance(state, int)]
        assert self.registry.next_retry_ns("a") == (min(waits) if waits else None)


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
