"""Two nodes that did not reach each other are no neighbours for a while, each time longer."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from quiver.chain.loading.happenings import Happening, Mended
from quiver.chain.loading.tasks import Surroundings, Tasks
from quiver.chain.metadata import Metadata
from quiver.errors import RemoteError
from quiver.slots import SlotTable


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.meanwhile: Callable[[], None] = int

    def pause(self, seconds: float) -> None:
        self.seconds += seconds
        happens, self.meanwhile = self.meanwhile, int
        happens()

    def monotonic_ns(self) -> int:
        return int(self.seconds * 1e9)

    def wall_ns(self) -> int:
        return self.monotonic_ns()


class AtOnce:
    """Workers who do a task while it is given to them."""

    def spawn(self, _: str, task: Callable[[], None]) -> None:
        task()


class Alone:
    """A loader's tasks, with a clock of their own and nobody around."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.posted: list[Happening] = []
        around = Surroundings(
            metadata=Metadata.__new__(Metadata),
            peers=lambda name: pytest.fail(f"{name} was asked"),
            nodes=list,
            workers=AtOnce(),
            clock=self.clock,
            random=random.Random(7),
        )
        self.tasks = Tasks(
            around, "core_0", SlotTable.of(["events"]), post=self.posted.append, hear=bool
        )

    def seconds_until_mended(self, pair: tuple[str, str]) -> float:
        begun = self.clock.seconds
        self.tasks.mend(pair)
        assert self.posted[-1] == Mended(pair)
        return self.clock.seconds - begun


def test_a_link_that_fails_again_is_avoided_longer_each_time() -> None:
    alone = Alone()
    assert [alone.seconds_until_mended(("a", "b")) for _ in range(3)] == [10, 20, 40]
    assert alone.seconds_until_mended(("b", "a")) == 80  # It is the same link.
    assert alone.seconds_until_mended(("b", "c")) == 10
    assert [alone.seconds_until_mended(("a", "b")) for _ in range(4)] == [160, 320, 600, 600]


def test_a_node_that_nobody_reaches_is_not_held_against_its_links() -> None:
    alone = Alone()
    for _ in range(5):
        alone.tasks._hearing.ask("b")
        assert alone.seconds_until_mended(("a", "b")) == 1
    alone.tasks._hearing.hear("b")
    assert alone.seconds_until_mended(("a", "b")) == 10
    assert alone.seconds_until_mended(("a", "b")) == 20


@pytest.mark.parametrize(
    ("takes", "error", "is_away"),
    [(0.2, None, False), (0.3, None, True), (0.1, RemoteError("no"), True)],
)
def test_a_node_that_is_back_within_the_second_was_away_all_the_same(takes, error, is_away) -> None:
    alone = Alone()

    def promises() -> None:
        with suppress(RemoteError), alone.tasks._hearing.asked("b"):
            alone.clock.seconds += takes
            if error:
                raise error
        alone.tasks._hearing.hear("b")

    for _ in range(2):
        alone.clock.meanwhile = promises
        seconds = alone.seconds_until_mended(("a", "b"))
        assert (seconds < 2) == is_away
    assert alone.seconds_until_mended(("a", "b")) == pytest.approx(10 if is_away else 40)
