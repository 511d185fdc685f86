"""Work for other threads, also while the process ends and there are no new ones.

What is under way is brought to its end even then, by whoever is at it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["begun", "begun_or_done"]

_Begun = TypeVar("_Begun")
_Given = TypeVar("_Given")
_Result = TypeVar("_Result")


def begun(begin: Callable[[], _Begun]) -> _Begun | None:
    """Begin something in other threads; None if there are no new ones."""
    try:
        return begin()
    except RuntimeError:
        return None


def begun_or_done(
    pool: ThreadPoolExecutor, act: Callable[[_Given], _Result], given: _Given
) -> Future[_Result]:
    """Have another thread do something, or do it here if there are no new ones."""
    future = begun(lambda: pool.submit(act, given))
    if future is None:
        future = Future()
        try:
            future.set_result(act(given))
        except Exception as error:  # noqa: BLE001 Whoever takes the result gets it.
            future.set_exception(error)
    return future
