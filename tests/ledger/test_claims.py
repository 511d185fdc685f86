"""Cores that share a cap, each of their steps on the ledger anywhere between those of others."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.ledger import Claims, Record, View

CAP, QUANTUM = 1000, 50


@dataclass
class Simulated:
    """One core: how much it uses, what it is about to do, and how far it is with one of these."""

    claims: Claims
    used: int = 0
    spare: int = 0
    left: deque[tuple[str, int]] = field(default_factory=deque)
    steps: Any = None
    act: tuple[str, int] = ("", 0)
    answer: View | None = None
    refusals: int = 0


class World:
    """A ledger in memory, and cores whose steps a test puts in any order."""

    def __init__(self, count: int, cap: int = CAP) -> None:
        self.cap = cap
        self.ledger: dict[int, Record] = {}
        self.cores = [Simulated(Claims(n, cap, quantum=QUANTUM)) for n in range(count)]

    def step(self, number: int) -> bool:
        """Let a core do one read or write, and see that the claims still fit; False if idle."""
        core = self.cores[number]
        if core.steps is None:
            if not core.left:
                return False
            core.act = core.left.popleft()
            kind, amount = core.act
            if kind == "free":
                core.used = max(core.used - amount, 0)
                return True
            grow = kind == "take"
            core.steps = (
                core.claims.grow(core.used, amount) if grow else core.claims.tend(core.used, 0)
            )
            core.answer = None
        self._advance(core)
        self.check()
        return True

    def _advance(self, core: Simulated) -> None:
        try:
            said = core.steps.send(core.answer)
        except StopIteration as end:
            core.steps = None
            kind, amount = core.act
            if kind == "take":
                if core.used + amount <= end.value:
                    core.used += amount
                else:
                    core.refusals += 1
            return
        if said is None:
            core.answer = View(dict(self.ledger))
        else:
            self.ledger[said.core] = said
            core.answer = View({})

    def check(self) -> None:
        claimed = sum(core.claims.claimed for core in self.cores)
        assert claimed <= self.cap
        assert sum(core.used for core in self.cores) <= self.cap

    def finish(self, number: int) -> None:
        for _ in range(1000):
            if not self.step(number):
                return
        raise AssertionError("it never ends")

    def do(self, number: int, kind: str, amount: int = 0) -> int:
        """Let a core do one thing without interruption; give how much it uses then."""
        self.cores[number].left.append((kind, amount))
        self.finish(number)
        return self.cores[number].used

    def tick_all(self) -> None:
        for number in range(len(self.cores)):
            self.do(number, "tick")


acts = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 400)),
    st.tuples(st.just("free"), st.integers(1, 600)),
    st.tuples(st.just("tick"), st.just(0)),
)
lives = st.lists(st.lists(acts, max_size=12), min_size=2, max_size=4)


@settings(max_examples=400, deadline=None)
@given(lives, st.lists(st.integers(0, 3), max_size=250))
def test_claims_never_pass_the_cap_whatever_the_order_of_steps(
    scripts: list[list[tuple[str, int]]], order: list[int]
) -> None:
    world = World(len(scripts))
    for core, script in zip(world.cores, scripts, strict=True):
        core.left.extend(script)
    for number in order:
        world.step(number % len(scripts))
    for number in range(len(scripts)):
        world.finish(number)
    # When all is quiet there is room for whoever asks, up to what the others use.
    for core in world.cores:
        core.used //= 2
    free = CAP - sum(core.used for core in world.cores)
    for number, core in enumerate(world.cores):
        if core.used + QUANTUM > CAP or free < 1:
            continue
        before = core.used
        for _ in range(6):
            world.tick_all()
            if world.do(number, "take", free) > before:
                break
            world.tick_all()
        assert core.used == before + free
        core.used = before
        world.tick_all()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_process_that_stops_anywhere_takes_no_more_than_it_announced(data: Any) -> None:
    world = World(3)
    for number in (0, 1):
        world.do(number, "take", data.draw(st.integers(0, 300)) + 1)
        world.do(number, "tick")
    stopped = world.cores[0]
    stopped.left.extend([("take", 100), ("tick", 0)])
    for _ in range(data.draw(st.integers(0, 8))):
        world.step(0)
    # From here on core 0 does nothing any more.
    announced = max(world.ledger[0].charge, stopped.used)
    assert announced <= stopped.used + 100 + 2 * QUANTUM
    left = CAP - announced - world.cores[1].used
    for _ in range(8):
        world.do(1, "tick")
        world.do(2, "tick")
        if world.do(2, "take", left):
            break
    assert world.cores[2].used == left


def test_one_core_alone_gets_all_of_the_cap() -> None:
    world = World(1)
    for _ in range(100):
        world.do(0, "take", 10)
    assert world.cores[0].used == CAP
    assert world.do(0, "take", 1) == CAP
    assert world.cores[0].claims.may_drop


def test_what_is_claimed_is_used_without_a_step() -> None:
    world = World(2)
    world.do(0, "take", 1)
    assert world.cores[0].claims.claimed == QUANTUM
    with pytest.raises(StopIteration) as end:
        next(world.cores[0].claims.grow(1, QUANTUM - 1))
    assert end.value.value == QUANTUM


def test_after_a_refusal_nothing_is_written_before_the_next_tick() -> None:
    world = World(2)
    world.do(0, "take", CAP)
    assert world.do(1, "take", 1) == 0
    turn = world.ledger[1].turn
    assert world.do(1, "take", 1) == 0
    assert world.ledger[1].turn == turn
    assert world.ledger[1].wanted == 1


def test_who_is_asked_says_so_and_gives_back_what_it_does_not_use() -> None:
    world = World(2)
    world.do(0, "take", CAP)
    world.do(0, "free", 100)
    world.do(1, "take", 80)
    steps = world.cores[0].claims.tend(world.cores[0].used, 0)
    next(steps)
    world.ledger[0] = steps.send(View(dict(world.ledger)))
    with pytest.raises(StopIteration) as end:
        steps.send(View({}))
    assert end.value.value is True
    assert world.cores[0].claims.claimed == CAP - 100
    world.do(1, "tick")
    assert world.do(1, "take", 80) == 80


def test_nobody_listens_for_ever_to_who_is_dead() -> None:
    claims = Claims(0, CAP, quantum=QUANTUM)
    ledger = {1: Record(1, turn=3, wanted=5)}
    heard = []
    for _ in range(20):
        steps = claims.tend(0, 0)
        next(steps)
        try:
            said = steps.send(View(ledger | {0: claims._record}))
            steps.send(View({}))
        except StopIteration as end:
            heard.append(end.value)
        else:
            raise AssertionError(said)
    assert heard == [True] * 8 + [False] * 12


def test_dropping_waits_for_what_others_have_processed() -> None:
    world = World(2)
    world.do(0, "take", CAP)
    world.ledger[0] = world.ledger[0]._replace(spare=300)
    claims = world.cores[1].claims
    world.do(1, "take", 1)
    patience = []
    for _ in range(4):
        patience.append(claims.may_drop)
        world.do(1, "tick")
        world.do(1, "take", 1)
    assert patience == [False, False, False, True]
    world.ledger[0] = world.ledger[0]._replace(spare=0)
    world.do(1, "tick")
    assert claims.may_drop


def test_what_a_core_holds_beyond_its_claim_is_left_to_it_as_far_as_there_is_room() -> None:
    world = World(2)
    world.do(1, "take", 300)
    steps = world.cores[0].claims.grow(900, 10)
    answer = None
    with pytest.raises(StopIteration) as end:
        while True:
            said = steps.send(answer)
            answer = View(dict(world.ledger)) if said is None else View({})
    assert end.value.value == 700
    with pytest.raises(StopIteration) as end:
        next(world.cores[0].claims.grow(900, 10))
    assert end.value.value == 700


def test_what_a_core_gives_up_itself_it_may_use_again_at_once() -> None:
    world = World(2)
    world.do(1, "take", 300)
    for used, incoming, allowed in ((700, 10, 700), (400, 10, 700), (400, 300, 700)):
        steps = world.cores[0].claims.grow(used, incoming)
        answer = None
        with pytest.raises(StopIteration) as end:
            while True:
                said = steps.send(answer)
                if said is not None:
                    world.ledger[0] = said
                answer = View(dict(world.ledger)) if said is None else View({})
        assert end.value.value == allowed


def test_who_has_no_sound_record_counts_with_what_it_takes() -> None:
    steps = Claims(0, CAP, quantum=QUANTUM).grow(0, 500)
    next(steps)
    next(steps)
    said = steps.send(View({}, strangers=lambda: 600))
    assert said is not None
    assert (said.claimed, said.wanted) == (0, 500)


def test_of_two_that_come_at_once_one_gets_it() -> None:
    world = World(2)
    for core in world.cores:
        core.left.append(("take", 600))
    for number in (0, 1, 0, 1, 1, 1, 0, 0, 0, 0):
        world.step(number)
    assert [core.used for core in world.cores] == [600, 0]


def test_leaving_keeps_what_is_there() -> None:
    claims = Claims(0, CAP, quantum=QUANTUM)
    assert list(claims.leave(70)) == [Record(0, 1, held=70, claimed=70)]
