"""What the harness asks of a store: lives to lead, and a judge.

``quiver.testing.oracle`` answers for Quiver itself. Whoever has another store behind the ``Disk``
protocol writes a class of this shape and gives it to a ``Campaign``; ``CRASHTEST.md`` beside this
file has an example.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from quiver.disk import Disk
from quiver.testing.acts import Mark

__all__ = ["Loss", "Stage", "Subject"]

Facts = TypeVar("Facts", bound=Hashable)


class Loss(AssertionError):
    """A promise was broken; the message says which and where."""


class Stage(Disk, Protocol):
    """A disk to live on, with a notebook that survives every crash."""

    def mark(self, label: str, **facts: object) -> None:
        """Write down what the workload knows now, in order with the acts."""


class Subject(Protocol[Facts]):
    """A store under test. ``Facts`` is what its marks add up to: hashable, compared by value."""

    @property
    def lives(self) -> Sequence[str]:
        """Names of the lives that ``live`` knows; equal names lead equal lives."""

    def live(self, name: str, stage: Stage) -> None:
        """Open a store on the stage and lead one life, marking each promise that it was given."""

    def facts(self, marks: Sequence[Mark]) -> Facts:
        """Sum up what was promised by the time of the crash."""

    def recover(self, disk: Disk, facts: Facts, *, torn: bool) -> Hashable:
        """Open what a crash left and give all that can be seen of its state; raises Loss.

        ``torn`` says that a write was cut, or came through without an earlier one to the same
        file, so that damage is no surprise.
        """

    def judge(self, disk: Disk, facts: Facts, state: Hashable, *, torn: bool) -> None:
        """Raise Loss unless a recovered disk keeps every promise and recovers to ``state`` again.

        Must depend on its arguments alone: the result is not asked for twice.
        """
