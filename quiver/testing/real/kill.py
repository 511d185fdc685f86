"""Kill a real process, open what it left in a new one, and kill that: several lives in a row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from quiver.testing.acts import Mark
from quiver.testing.real.actor import Actor, Performance
from quiver.testing.real.folder_tree import read_tree
from quiver.testing.real.leftover import Leftover
from quiver.testing.subject import Loss, Subject

__all__ = ["kill_in_a_row"]

_ACTS: Final = 120
"""Acts by lot are below this; a life that is over sooner is no kill and not counted."""

_EARLY_ACTS: Final = 12
"""Half of them are among the first: there is the recovery from the kill before."""

_SECONDS: Final = 0.03
"""Moments by lot are below this."""

_HALF: Final = 0.5

_TRIES: Final = 20


def kill_in_a_row(
    actor: Actor,
    subject: Subject,
    folder: str,
    *,
    kills: int,
    seed: int = 0,
) -> Iterator[Leftover]:
    """Lead lives by lot in one folder, each in a new process, and kill so many of them.

    Half are killed at a moment, half before an act, often inside the recovery from the kill
    before. Raises Loss if a process finds fault with what the one before left to it.
    """
    lot = random.Random(f"{seed} kills")
    marks: list[Mark] = []
    for number in range(kills):
        for _ in range(_TRIES):
            life = lot.choice(subject.lives)
            performance, crash = _perform(actor, life, folder, lot=lot)
            marks += performance.marks
            _check(performance, life)
            if performance.killed:
                break
        else:
            raise Loss(f"{_TRIES} lives in a row were over before they could be killed")
        crash = f"kill {number + 1} in one folder, {crash}"
        yield Leftover(life, crash, tuple(marks), read_tree(folder))


def _perform(
    actor: Actor, life: str, folder: str, *, lot: random.Random
) -> tuple[Performance, str]:
    if lot.random() < _HALF:
        performance = actor.perform(life, folder)
        performance.watch(lot.uniform(0.0, _SECONDS))
        performance.kill()
        crash = "from outside"
    else:
        act = lot.randrange(_EARLY_ACTS if lot.random() < _HALF else _ACTS)
        performance = actor.perform(life, folder, kill_before=act)
        crash = f"before act {act}"
    performance.finish()
    return performance, crash


def _check(performance: Performance, life: str) -> None:
    """Raise Loss for what no life may meet on a disk that works: refusals and broken promises."""
    if performance.loss or performance.refusal:
        raise Loss(f"life {life}: {performance.loss or performance.refusal}")
