"""One thread at a time sends, and none out of the midst of its own sending."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from quiver.chain.turns import Turn
from quiver.errors import CapacityError
from quiver.units import SECOND, parse_duration

__all__ = ["SendingTurn", "amid"]

_T = TypeVar("_T")


def amid(partition: str) -> CapacityError:
    """Say to a call that it comes out of the midst of what it would wait for."""
    return CapacityError(
        f"this thread is in the middle of sending to {partition}",
        hint="this call comes out of that, as a signal handler's does: repeat it later",
    )


class SendingTurn:
    """Whose turn it is to send to a partition. Safe for many threads."""

    def __init__(self, partition: str) -> None:
        """Let the first one in."""
        self._partition = partition
        self._turn = Turn()
        self._is_taken = False

    def run(self, act: Callable[[], _T], timeout: float | str | None) -> _T:
        """Wait for the turn, so long at most, and do something; CapacityError if it does not come.

        Or if this thread has it, further up: a signal handler came in between.
        """
        found: list[_T] = []

        def keep() -> None:
            found.append(self._alone(act))

        if timeout is None:
            self._turn.run(keep)
        elif not self._turn.run(keep, parse_duration(timeout) / SECOND):
            raise CapacityError(
                f"another thread has waited to send to {self._partition} for {timeout}",
                hint="its chain takes nothing: wait, or look at its nodes",
            )
        return found[0]

    def run_if_free(self, act: Callable[[], object]) -> None:
        """Do something unless another thread has the turn; CapacityError as for ``run``."""
        self._turn.run(lambda: self._alone(act), 0.0)

    def _alone(self, act: Callable[[], _T]) -> _T:
        if self._is_taken:
            raise amid(self._partition)
        self._is_taken = True
        try:
            return act()
        finally:
            self._is_taken = False
