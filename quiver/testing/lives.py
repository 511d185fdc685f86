"""Lives of a store, short and eventful: a few written by hand, and as many as wanted by lot.

Sizes are tiny so that a few bundles are enough to rotate the log, start ack.log afresh and punch
holes. A life by lot is named ``seed N``: equal names lead equal lives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from quiver.config import Config
from quiver.testing.rehearsal import Rehearsal
from quiver.testing.subject import Stage

__all__ = ["LIVES", "TINY", "config_of", "lead"]

TINY: Final[Mapping[str, Any]] = {
    "wal": {"rotate_size": 3000, "reclaim_size": 1, "max_size": 100_000},
    "acks": {"max_size": 320},
    "limits": {"entry_bytes": 50_000},
}

_SECTIONS: Final[tuple[tuple[str, tuple[Mapping[str, Any], ...]], ...]] = (
    (
        "wal",
        (
            TINY["wal"],
            {**TINY["wal"], "rotate_size": 100_000},
            {**TINY["wal"], "rotate_size": 100_000, "reclaim": "copy"},
            {**TINY["wal"], "durability": "interval"},
            {**TINY["wal"], "durability": "segment"},
        ),
    ),
    ("acks", (TINY["acks"], {"max_size": 100_000})),
)

_EVENTS: Final = 16
"""Events of a life by lot."""


def append_and_finalize(life: Rehearsal) -> None:
    life.append(4)
    life.finalize()
    life.append(3)
    life.finalize()
    life.append(2)


def rotate(life: Rehearsal) -> None:
    life.append(12)
    life.finalize()
    life.append(5)


def subscribe_ack_delete(life: Rehearsal) -> None:
    life.register("a", "b")
    life.append(3)
    life.finalize()
    life.take("a", 2)
    life.take("b", 1, nack=True)
    life.append(2)
    life.finalize()
    life.maintain()
    life.take("a")
    life.clock.step("1h")
    life.take("b")
    life.maintain()
    life.append(1)
    life.finalize()
    life.take("a")
    life.maintain()


def checkpoint_often(life: Rehearsal) -> None:
    life.register("a")
    for _ in range(4):
        life.append(3)
        life.finalize()
        life.take("a", 2)
        life.maintain()
    life.clock.step("1h")
    life.take("a")
    life.maintain()


def close_and_reopen(life: Rehearsal) -> None:
    life.append(3)
    life.close()
    life.open()
    life.append(2)
    life.crash()
    life.open()
    life.append(2)
    life.close()


def pipeline_without_waiting(life: Rehearsal) -> None:
    life.append(5, wait=False)
    life.flush()
    life.append(4, wait=False)
    life.finalize()
    life.append(2, wait=False)
    life.flush()


def upkeep(life: Rehearsal) -> None:
    life.register("a", "b")
    life.append(3)
    life.finalize()
    life.take("a", 2)
    life.maintain()
    life.append(2, wait=False)
    life.maintain()
    life.take("b", 1)
    life.unregister("b")
    life.take("a")
    life.take("c", 1)
    life.take("c", 1, nack=True)
    life.take("c")
    life.append(1)
    life.maintain()
    life.finalize()
    life.take("a", 1)
    life.close()
    life.open()
    life.append(2)
    life.crash()
    life.open()
    life.take("a")
    life.maintain()


def go_on_after_refusals(life: Rehearsal) -> None:
    steps: tuple[Callable[[], None], ...] = (
        lambda: life.append(3),
        life.finalize,
        lambda: life.append(1),
        life.maintain,
        lambda: life.append(4),
        lambda: life.append(2, wait=False),
        life.flush,
        lambda: life.take("a", 1),
        life.maintain,
        lambda: life.take("a", 2),
        life.maintain,
        life.finalize,
        lambda: life.take("a"),
        life.maintain,
        lambda: life.append(1),
    )
    for step in steps:
        life.survive(step)


def begin(life: Rehearsal) -> None:
    life.append()


LIVES: Final[Mapping[str, Callable[[Rehearsal], None]]] = {
    "append and finalize": append_and_finalize,
    "rotate": rotate,
    "subscribe, ack, delete": subscribe_ack_delete,
    "checkpoint often": checkpoint_often,
    "close and reopen": close_and_reopen,
    "pipeline without waiting": pipeline_without_waiting,
    "upkeep": upkeep,
    "go on after refusals": go_on_after_refusals,
    "begin": begin,
    "without holes": go_on_after_refusals,
}
_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "without holes": {**TINY, "wal": {**TINY["wal"], "rotate_size": 100_000, "reclaim": "copy"}},
}


@lru_cache(maxsize=64)
def config_of(name: str) -> Config:
    """Give the configuration that a life is led under."""
    if name in LIVES:
        return Config.of(_CONFIGS.get(name, TINY))
    lot = random.Random(f"config {name}")
    return Config.of({**TINY, **{section: lot.choice(choices) for section, choices in _SECTIONS}})


def lead(name: str, stage: Stage) -> Rehearsal:
    """Lead the life of this name; what the disk refuses, it survives as far as a user would."""
    stage.mark("life", name=name)
    life = Rehearsal(stage, config=config_of(name))
    if name in LIVES:
        LIVES[name](life)
        return life
    lot = random.Random(name)
    subscribers = ["a", "b", "c"][: lot.randint(0, 3)]
    for _ in range(_EVENTS):
        life.survive(_event(life, subscribers, lot))
    return life


def _event(life: Rehearsal, subscribers: list[str], lot: random.Random) -> Callable[[], None]:
    """Choose by lot what happens next."""

    def someone() -> str:
        return lot.choice(subscribers)

    events: list[Callable[[], None]] = [
        lambda: life.append(lot.randint(1, 4)),
        lambda: life.append(lot.randint(1, 4)),
        lambda: life.append(lot.randint(1, 5), wait=False),
        life.flush,
        life.finalize,
        life.finalize,
        lambda: _reopen(life),
        lambda: _kill(life),
    ]
    if subscribers:
        events += [
            lambda: life.register(someone()),
            lambda: life.take(someone(), lot.randint(1, 5)),
            lambda: life.take(someone()),
            lambda: life.take(someone(), lot.randint(1, 2), nack=True),
            lambda: life.clock.step("1m"),
            life.maintain,
        ]
    return lot.choice(events)


def _reopen(life: Rehearsal) -> None:
    life.close()
    life.open()


def _kill(life: Rehearsal) -> None:
    life.crash()
    life.open()
