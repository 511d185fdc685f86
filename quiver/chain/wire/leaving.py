"""Calls that are under way when the process ends: they are cancelled, and their threads waited for.

A thread that comes back from Flight when the interpreter is gone ends the process with a
segmentation fault, behind all that it did.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["calling"]

_PATIENCE_SECONDS = 2.0
_lock = threading.Lock()
_calls: dict[object, tuple[Callable[[], object], threading.Thread]] = {}


@contextmanager
def calling(cancel: Callable[[], object]) -> Iterator[None]:
    """Say how a call of this thread is cancelled, as long as it may wait in it."""
    key = object()
    with _lock:
        _calls[key] = (cancel, threading.current_thread())
    try:
        yield
    finally:
        with _lock:
            _calls.pop(key, None)


def _leave() -> None:
    """Cancel all, and wait a moment for their threads."""
    with _lock:
        calls = list(_calls.values())
    for cancel, _ in calls:
        with suppress(Exception):  # It is over anyway.
            cancel()
    for _, thread in calls:
        if thread is not threading.current_thread():
            thread.join(_PATIENCE_SECONDS / len(calls))


atexit.register(_leave)
