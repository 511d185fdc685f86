"""What the harness asks of a store: lives to lead, and a judge.

``quiver.testing.oracle`` answers for Quiver itself. Whoever has another store behind the ``Disk``
protocol writes a class of this shape and gives it to a ``Campaign``; ``CRASHTEST.md`` beside this
file has an example.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from quiver.disk import Disk
from quiver.testing.acts import Mark

__all__ = ["Loss", "Stage", "Subject"]


class Loss(AssertionError):
    """A promise was broken; the message says which and where."""


class Stage(Disk, Protocol):
    """A disk to live on, with a notebook that survives every crash."""

    def mark(self, label: str, **facts: object) -> None:
        """Write down what the workload knows now, in order with the acts."""


class Subject(Protocol):
    """A store under test.

    What an image of a disk comes to and what was promised are two things that meet in ``judge``
    alone: many images recover to the same, and one image arises under many promises.
    """

    @property
    def lives(self) -> Sequence[str]:
        """Names of the lives that ``live`` knows; equal names lead equal lives."""

    def live(self, name: str, stage: Stage) -> None:
        """Open a store on the stage and lead one life, marking each promise that it was given."""

    def facts(self, marks: Sequence[Mark]) -> Hashable:
        """Sum up what was promised by the time of the crash."""

    def recover(self, disk: Disk, life: str) -> Hashable:
        """Open what a crash left of a life and give what is to be seen at once; may raise Loss."""

    def observe(self, disk: Disk, life: str, state: Hashable) -> Any:  # noqa: ANN401
        """Look at all that a recovered disk holds, on a copy that may be changed; may raise Loss.

        ``state`` is what ``recover`` gave. The answer must depend on the arguments alone: it is
        asked for once for each disk that recoveries lead to.
        """

    def judge(self, facts: Any, state: Any, seen: Any, *, torn: bool) -> None:  # noqa: ANN401
        """Raise Loss if a promise is not kept by what was recovered and seen.

        ``torn`` says that a write was cut, or came through without an earlier one to the same
        file, so that damage is no surprise.
        """
