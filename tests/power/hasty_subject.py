"""Stores that break their promises, each in a process of its own: what the harness must find."""

from __future__ import annotations

from typing import Any

from quiver.testing.oracle import QuiverSubject
from quiver.testing.subject import Stage


class HastyStage:
    """A stage on which a bundle counts as acknowledged as soon as it is sent."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def mark(self, label: str, **facts: object) -> None:
        self._stage.mark(label, **facts)
        if label == "sent":
            self._stage.mark("acknowledged", **facts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


class HastySubject(QuiverSubject):
    def live(self, name: str, stage: Stage) -> None:
        super().live(name, HastyStage(stage))


class ClumsySubject(QuiverSubject):
    """One that falls over its own feet on any real disk."""

    def live(self, name: str, stage: Stage) -> None:
        if not stage.locate("").startswith("memory:"):
            raise ZeroDivisionError(name)
        super().live(name, stage)


def hasty(seed: int) -> HastySubject:
    return HastySubject(by_lot=8, seed=seed)


def clumsy(seed: int) -> ClumsySubject:
    return ClumsySubject(by_lot=8, seed=seed)
