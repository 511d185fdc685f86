"""Interrupts at any moment: a signal handler that raises."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["AGAIN", "Struck", "interrupt_once", "struck_by_alarms"]

AGAIN = 5.0
"""Seconds until the next one: what strikes where Python lets go of an object is not heard."""


class Struck(BaseException):
    """What the handler raises."""


def interrupt_once(patch: pytest.MonkeyPatch, owner: object, step: str, *, behind: bool) -> None:
    """Have the next call of a step of somebody's interrupted, before it is done or behind that."""
    act = getattr(owner, step)

    def interrupted(*values: object) -> None:
        patch.undo()
        if behind:
            act(*values)
        raise KeyboardInterrupt

    patch.setattr(owner, step, interrupted)


def _strike(*_: object) -> None:
    raise Struck


@contextmanager
def struck_by_alarms() -> Iterator[None]:
    """Have SIGALRM raise it; whoever sets the timer catches it."""
    before = signal.signal(signal.SIGALRM, _strike)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
