"""Batches for threads of Arrow's, which must not be inside of Python when that ends.

A Scanner reads ahead by such a thread, which waits for nobody at the end of a process: it came back
into an interpreter that was gone, and the process died of it, or never ended.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

__all__ = ["until_the_end"]

_PATIENCE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.02
"""For so long a thread may be on its way out, or on its way in to be told that it is over."""

_ending = threading.Event()
_begun: list[bool] = []
"""Not empty once anybody was given anything."""
_inside: set[object] = set()


def until_the_end(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give batches, and no more of them once the process ends."""
    token, rest = object(), iter(batches)
    _begun[:] = [True]
    while True:
        _inside.add(token)
        try:
            batch = None if _ending.is_set() else next(rest, None)
        finally:
            _inside.discard(token)
        if batch is None:
            return
        yield batch


def _leave() -> None:
    """Let whoever is inside come out, but not for ever."""
    _ending.set()
    limit = time.monotonic() + _PATIENCE_SECONDS
    while _begun and time.monotonic() < limit:
        is_busy = bool(_inside)
        time.sleep(_PAUSE_SECONDS)
        if not (is_busy or _inside):
            return


atexit.register(_leave)
os.register_at_fork(after_in_child=_inside.clear)
