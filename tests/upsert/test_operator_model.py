"""The operator against the model: frontiers that lag, others that append, new lives."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from upsert_model import PLAN, Command, Memory, Model, definition, table

from quiver.upsert.operator import Step, Upsert
from quiver.upsert.rows import key_hashes, prepare
from quiver.upsert.stash import Stash

KEYS = st.sampled_from([(1, "a"), (1, "b"), (2, "a"), (0, ""), (-1, "a"), (7, None), (8, None)])
KEY_TYPE = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
VALUES = st.sampled_from([None, "", "p", "q"])
COMMANDS = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 3)), max_size=12)


def nested(key: tuple[int, str | None]) -> dict[str, Any]:
    return {"x": key[0], "y": None if key[1] is None else [key[1], None]}


def flat(key: Any) -> tuple[int, str | None]:
    return key["x"], None if key["y"] is None else key["y"][0]


class Flat(Memory):
    """The same collection, its nested keys told as the model knows them."""

    def state(self) -> dict[Any, Any]:
        rows = self.rows.to_pylist()
        return {flat(row["key"]["k"]): row["value"]["v"] for row in rows}


class Lives(RuleBasedStateMachine):
    """One operator at a time; its input, its collection, and another operator beside it."""

    @initialize(window=st.integers(1, 5), bytes_most=st.sampled_from([300, 1 << 30]))
    def begin(self, window: int, bytes_most: int) -> None:
        self.kind = definition(KEY_TYPE)
        self.window, self.bytes_most = window, bytes_most
        self.model, self.collection = Model(), Flat(self.kind)
        self.sent: list[list[Command]] = []
        self.input = 0
        self.outgoing: Step | None = None
        self.operator = self.anew()
        self.held: int | None = None

    def anew(self) -> Upsert:
        stash = Stash(bytes_most=self.bytes_most)
        upper = self.collection.upper
        how: Any = {"window_keys": self.window, "window_bytes": self.bytes_most, "stash": stash}
        return Upsert(self.kind, upper, **how)

    def push_to(self, operator: Upsert, made: list[Command]) -> None:
        for time in sorted({command.time for command in made}):
            some = [c for c in made if c.time == time]
            rows = table([Command(nested(c.key), c.value, time, c.at) for c in some], KEY_TYPE)
            operator.push(prepare(rows, PLAN, self.kind), time)

    @rule(given=COMMANDS, ahead=st.lists(st.integers(0, 3), min_size=12, max_size=12))
    def push(self, given: list[Any], ahead: list[int]) -> None:
        made = [
            Command(key, value, self.input + more, at)
            for (key, value, at), more in zip(given, ahead, strict=False)
        ]
        for command in made:
            self.model.push(command)
        self.sent.append(made)
        self.push_to(self.operator, made)

    @rule(more=st.integers(0, 3))
    def input_goes_on(self, more: int) -> None:
        self.input += more

    @rule()
    def step(self) -> None:
        step = self.operator.step(self.input, self.collection)
        if step.time is None:
            assert not step.diffs
            return
        assert self.outgoing is None, "an epoch is given out once"
        assert step.time == self.collection.upper < self.input
        self.outgoing = step

    @precondition(lambda self: self.outgoing is not None)
    @rule()
    def append_arrives(self) -> None:
        step, self.outgoing = self.outgoing, None
        self.append(step)

    def append(self, step: Step) -> None:
        self.collection.append(step.time, step.diffs)
        assert self.collection.state() == self.model.state(step.time)

    @precondition(lambda self: self.input > self.collection.upper)
    @rule()
    def another_appends_first(self) -> None:
        """Of the same input; what our operator had on its way is of no use any more."""
        other = self.anew()
        for made in self.sent:
            self.push_to(other, made)
        self.append(other.step(self.input, self.collection))
        self.outgoing = None

    @rule()
    def a_new_life(self) -> None:
        """The source goes through everything once more."""
        self.outgoing = None
        self.operator = self.anew()
        for made in self.sent:
            self.push_to(self.operator, made)

    @invariant()
    def nothing_of_what_was_persisted_is_held_for_long(self) -> None:
        step = self.operator.held
        waiting = self.operator.waiting
        assert (step is None) == (waiting == 0)

    def teardown(self) -> None:
        """Everything comes out in the end."""
        if not hasattr(self, "operator"):
            return
        if self.outgoing is not None:
            self.append_arrives()
        last = max(self.model.won, default=0)
        for _ in range(last + 2):
            step = self.operator.step(None, self.collection)
            if step.time is not None and self.collection.upper <= last:
                self.append(step)
        assert self.collection.upper > last or not self.model.won
        assert self.operator.step(None, self.collection).done
        assert self.collection.state() == self.model.state(last)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.fixture
def few_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("quiver.upsert.rows.prepare")
    monkeypatch.setattr(module, "key_hashes", lambda rows: key_hashes(rows) % 2)


@pytest.mark.usefixtures("few_hashes")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(epochs=st.lists(COMMANDS, min_size=1, max_size=5), window=st.integers(1, 4))
def test_hashes_that_meet_all_the_time_change_nothing(epochs: list[Any], window: int) -> None:
    kind = definition(KEY_TYPE)
    model, collection = Model(), Flat(kind)
    operator = Upsert(kind, 0, window_keys=window)
    for time, some in enumerate(epochs):
        made = [Command(key, value, time, at) for key, value, at in some]
        for command in made:
            model.push(command)
        rows = table([Command(nested(c.key), c.value, time, c.at) for c in made], KEY_TYPE)
        operator.push(prepare(rows, PLAN, kind), time)
    for time in range(len(epochs)):
        step = operator.step(len(epochs), collection)
        collection.append(time, step.diffs)
        assert collection.state() == model.state(time)
