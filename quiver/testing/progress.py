"""Lives of a store that reads a source, and what its progress must say after a crash.

The source has three splits: bundle ``n`` is row ``n`` of it, of split ``n % 3``, and the state
behind it is ``n``. So a state says which bundle is the last of its split that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Final
from unittest import mock

from quiver.engine import saving
from quiver.engine.progress_beside import read_all
from quiver.errors import CapacityError
from quiver.testing.facts import Facts
from quiver.testing.lossy import LOSSY, LOSSY_CONFIGS
from quiver.testing.lots import by_lot
from quiver.testing.rehearsal import SOURCE, SPLITS, Rehearsal
from quiver.testing.subject import Loss

__all__ = ["FOLLOWING", "FOLLOWING_CONFIGS", "judge_progress", "progress_of"]


def progress_of(now: Rehearsal) -> tuple[tuple[str, int], ...]:
    """Ask a store that was just opened, and look from outside: both must say the same."""
    core = now.store._core
    states = core.progress.latest(None).states(SOURCE)
    outside = read_all(core.disk).table.states(SOURCE)
    if states != outside:
        raise Loss(f"the progress is {states}, and seen from outside {outside}")
    return tuple((split, int(state)) for split, state in states.items())


def judge_progress(
    facts: Facts, sources: tuple[tuple[str, int], ...], there: frozenset[int]
) -> None:
    """Raise Loss if a state is ahead of the bundles that survived, or behind them."""
    gone = facts.done | there
    for split, last in sources:
        if last not in gone or last >= facts.sent:
            raise Loss(f"the progress of {split} is ahead: {last}, and there are {sorted(there)}")
    states = dict(sources)
    kept = (frozenset(range(facts.durable)) - facts.dropped) | there
    for number in kept & facts.followed:
        if states.get(SPLITS[number % len(SPLITS)], -1) < number:
            raise Loss(f"bundle {number} is durable, and the progress is behind it: {states}")


@contextmanager
def _full() -> Iterator[None]:
    """Let there be no room for what is saved of progress."""

    def write(*_: object, **__: object) -> None:
        raise CapacityError("the disk is full")

    with mock.patch.object(saving, "write_progress", write):
        yield


def follow_and_finalize(life: Rehearsal) -> None:
    life.follow()
    life.append(3)
    life.finalize()
    life.append(2)
    life.finalize()
    life.append(4, wait=False)
    life.crash()
    life.open()
    life.append(2)
    life.close()
    life.open()
    life.append(1)


def follow_and_delete(life: Rehearsal) -> None:
    """Segments go that were the last to know a state."""
    life.follow()
    life.register("a")
    for count in (4, 1, 2):
        life.survive(lambda count=count: life.append(count))  # type: ignore[misc]
        with nullcontext() if count > 1 else _full():
            life.survive(life.finalize)
        life.survive(lambda: life.take("a"))
        life.survive(life.maintain)
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(1))


def follow_meanwhile(life: Rehearsal) -> None:
    """At each moment of writing a segment one bundle more; some are refused at first."""
    life.follow()
    life.register("a")
    life.survive(lambda: life.append(2))
    with life.meanwhile(lambda moment: life.append(1, wait=moment % 3 == 0)):
        life.survive(life.finalize)
    life.survive(lambda: life.append(1))
    with life.refusing(1):
        life.survive(life.finalize)
    life.survive(lambda: life.append(1))
    life.survive(lambda: life.take("a"))
    life.survive(life.maintain)
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(1))


def follow_and_drop(life: Rehearsal) -> None:
    """Lose what is open, of which the log alone knows how far it was read."""
    life.follow()
    LOSSY["drop what is open"](life)


def follow_by_lot(life: Rehearsal) -> None:
    life.follow()
    by_lot(life, "source 3")


FOLLOWING: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "follow and finalize": follow_and_finalize,
    "follow and delete": follow_and_delete,
    "follow without a log": follow_and_delete,
    "follow meanwhile": follow_meanwhile,
    "follow and drop": follow_and_drop,
    "follow by lot": follow_by_lot,
}
FOLLOWING_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "follow without a log": {
        "wal": {"durability": "segment"},
        "acks": {"max_size": 320},
        "limits": {"entry_bytes": 50_000},
    },
    "follow and drop": LOSSY_CONFIGS["drop what is open"],
}
