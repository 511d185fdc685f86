"""The first answer of a call, for which Flight waits without a limit before it gives the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from quiver.chain.wire.flights import FLIGHT_ERRORS
from quiver.chain.wire.leaving import calling, cancel_soon

__all__ = ["opened"]


def opened(call: Callable[[], Any], limit: float) -> Any:  # noqa: ANN401
    """Make a call that gives a reader; None if it has no answer in so many seconds.

    It is made by a thread, which stays where it is until the connection ends, and cancels then what
    nobody waits for any more. Raises what the call raises.
    """
    answers: SimpleQueue[Any] = SimpleQueue()
    lock = threading.Lock()
    is_given_up = False

    def make() -> None:
        try:
            with calling():
                found = call()
        except FLIGHT_ERRORS as error:
            found = error
        with lock:
            if not is_given_up:
                answers.put(found)
                return
        if not isinstance(found, BaseException):
            cancel_soon(found)

    threading.Thread(target=make, name="quiver-call", daemon=True).start()
    try:
        answer = answers.get(timeout=limit)
    except BaseException as error:
        with lock:
            is_given_up = True
        answer = None if answers.empty() else answers.get()
        if not isinstance(error, Empty):  # The caller was interrupted, and wants none any more.
            if answer is not None and not isinstance(answer, BaseException):
                cancel_soon(answer)
            raise
    if isinstance(answer, BaseException):
        raise answer
    return answer
