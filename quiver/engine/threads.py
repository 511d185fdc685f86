"""A thread begins, or the system has none to give."""

from __future__ import annotations

import threading

from quiver.errors import CapacityError

__all__ = ["begin_thread"]


def begin_thread(thread: threading.Thread) -> None:
    """Start a thread; CapacityError if the system gives no more of them."""
    try:
        thread.start()
    except RuntimeError as error:
        raise CapacityError(
            "the system gives this process no more threads",
            hint="raise the limit of them (ulimit -u, pids of a container), or use worker=False",
        ) from error
