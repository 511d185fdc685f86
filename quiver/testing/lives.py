"""Lives of a store, short and eventful: a few written by hand, and as many as wanted by lot.

Sizes are tiny so that a few bundles are enough to rotate the log, start ack.log afresh and punch
holes. A life by lot is named ``seed N`` or ``crowd N``: equal names lead equal lives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from quiver.config import Config
from quiver.testing.forgoing import FORGOING, FORGOING_CONFIGS
from quiver.testing.lossy import LOSSY, LOSSY_CONFIGS
from quiver.testing.lots import MOMENTS, at_moment, by_lot
from quiver.testing.neighbourly import NEIGHBOURLY, NEIGHBOURLY_CONFIGS
from quiver.testing.outgoing import OUTGOING, OUTGOING_CONFIGS
from quiver.testing.progress import FOLLOWING, FOLLOWING_CONFIGS
from quiver.testing.rehearsal import Rehearsal
from quiver.testing.rounds import ROUNDS, ROUNDS_CONFIGS
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


def append_meanwhile(life: Rehearsal) -> None:
    """At each moment of writing a segment, one bundle more."""
    life.append(3)
    with life.meanwhile(lambda _: life.append(1)):
        life.finalize()
    life.append(1)
    life.finalize()
    life.append(1)


def append_at_each_moment(life: Rehearsal) -> None:
    """One segment for each moment of writing one, and two bundles in it."""
    for chosen in range(MOMENTS):
        life.append(1)
        with life.meanwhile(at_moment(chosen, lambda: life.append(2))):
            life.finalize()


def all_meanwhile(life: Rehearsal) -> None:
    """All that a store can do, in turn, while segments are written; then the same shifted."""
    life.register("a", "b")
    steps: tuple[Callable[[], None], ...] = (
        lambda: life.append(1, wait=False),
        lambda: life.take("a", 1),
        life.maintain,
        lambda: life.append(1),
        life.finalize,
        lambda: life.take("b", 1, nack=True),
        life.flush,
        lambda: life.take("b", 2),
    )
    for shift in range(0, 8, 2):
        life.survive(lambda: life.append(2))
        with life.meanwhile(lambda moment, shift=shift: steps[(moment + shift) % len(steps)]()):  # type: ignore[misc]
            life.survive(life.finalize)
        life.clock.step("1m")
    life.survive(life.maintain)
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(1))


def fill_segments(life: Rehearsal) -> None:
    """Segments that are written because they are full, and more that comes meanwhile."""
    life.register("a")
    for moments in (3, 2):
        with life.meanwhile(_every(moments, lambda: life.append(1))):
            life.survive(lambda: life.append(4))
        life.survive(lambda: life.take("a", 2))
        life.survive(life.maintain)
    with life.meanwhile(_every(4, lambda: life.append(1, wait=False))):
        life.survive(lambda: life.append(3, wait=False))
        life.survive(life.close)


def refused_segments(life: Rehearsal) -> None:
    """Segments that cannot be written at first, and more that comes before they can."""
    life.append(2)
    with life.refusing(1):
        life.survive(life.finalize)
    life.append(2)
    with life.refusing(0):
        life.survive(life.maintain)
    life.survive(life.finalize)
    life.append(1, wait=False)
    with life.refusing(2):
        life.survive(life.finalize)
    life.survive(lambda: life.append(2, wait=False))
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.survive(lambda: life.append(1))


def runs_and_dead_letters(life: Rehearsal) -> None:
    """Acks of runs, pauses, a start over, and bundles that are given up."""
    life.register("a", "b")
    life.append(5)
    life.finalize()
    life.take("a", 1, nack=True)
    life.take_runs("a", 2)
    life.reject("b")
    life.store.pause("b")
    life.maintain()
    life.take_runs("b", 9)
    life.append(2)
    life.finalize()
    life.store.resume("b")
    life.take_runs("b", 9)
    life.reset("b")
    life.maintain()
    life.clock.step("1h")
    life.reject("a")
    life.take_runs("a", 9)
    life.take_runs("b", 3)
    life.maintain()


def beside_the_writer(life: Rehearsal) -> None:
    """Let one subscriber live in another process, die now and then, and be in this one, too."""
    life.register("a")
    life.append(4)
    life.finalize()
    life.beside("b", 2)
    life.maintain()
    life.beside("b", 1, commit=False)
    life.take("a")
    life.append(2)
    life.finalize()
    life.beside("b", 2)
    life.close()
    life.beside("b", 1)
    life.beside("b", 0)
    life.beside("c", 1)
    life.open()
    life.maintain()
    life.take("b")
    life.beside("b")
    life.beside("c")
    life.maintain()


def taken_back(life: Rehearsal) -> None:
    """Take over what another process did in the middle of what is done here."""
    life.append(3)
    life.finalize()
    life.beside("b", 1)
    life.take("b", 1)
    life.beside("b", 1)
    life.maintain()
    life.append(2)
    life.finalize()
    life.beside("c", 1)  # Nobody has an id for it yet, and so has its inbox none.
    life.maintain()
    life.reset("c")
    life.maintain()


def prepared_segments(life: Rehearsal) -> None:
    """Segments of which something was prepared, or all; written at once, later, or never."""
    life.register("a")

    def more() -> None:
        life.append(1)
        life.look_ahead()

    for count in (1, 3):
        life.append(count)
        life.look_ahead()
    life.append(2)
    with life.refusing(1):
        life.survive(life.finalize)
    more()
    with life.meanwhile(_every(3, more)):
        life.survive(life.finalize)
    more()
    life.survive(lambda: life.take("a", 5))
    life.survive(life.finalize)
    more()
    life.survive(life.close)
    if life.store.closed:
        life.open()
    life.look_ahead()
    life.survive(more)


def _every(count: int, act: Callable[[], None]) -> Callable[[int], None]:
    return lambda moment: act() if moment % count == 0 else None


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
    "append meanwhile": append_meanwhile,
    "append at each moment": append_at_each_moment,
    "all meanwhile": all_meanwhile,
    "fill segments": fill_segments,
    "refused segments": refused_segments,
    "refused without a log": refused_segments,
    "prepared segments": prepared_segments,
    "runs and dead letters": runs_and_dead_letters,
    "beside the writer": beside_the_writer,
    "taken back": taken_back,
    **LOSSY,
    **NEIGHBOURLY,
    **FOLLOWING,
    **OUTGOING,
    **ROUNDS,
    **FORGOING,
}
_CONFIGS: Final[Mapping[str, Mapping[str, Any]]] = {
    **LOSSY_CONFIGS,
    **NEIGHBOURLY_CONFIGS,
    **FOLLOWING_CONFIGS,
    **OUTGOING_CONFIGS,
    **ROUNDS_CONFIGS,
    **FORGOING_CONFIGS,
    "taken back": {**TINY, "acks": {"max_size": 100_000}},
    "refused without a log": {**TINY, "wal": {**TINY["wal"], "durability": "segment"}},
    "fill segments": {**TINY, "segment": {"target_size": 1500}},
    "without holes": {  # And without a checkpoint of the acks that makes up for what a sync lost.
        **TINY,
        "wal": {**TINY["wal"], "rotate_size": 100_000, "reclaim": "copy"},
        "acks": {"max_size": 100_000},
    },
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
    else:
        by_lot(life, name)
    return life
