"""How long single acts on a store take, and how much memory an open one has."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

from bench.kit import clocked

__all__ = ["Samples", "claims", "repeated", "traced_bytes"]

Samples = dict[str, list[float]]
"""Several times of each act, in seconds."""

_TIMES: Final = 9


def repeated(act: Callable[[], Any], times: int = _TIMES) -> list[float]:
    """Do a thing once unmeasured, then so many times; seconds of each."""
    act()
    return [clocked(act) for _ in range(times)]


def claims(ready: Any, times: int = _TIMES, each: int = 8) -> list[float]:
    """Take bundles and ack them; seconds for one, each a mean of several in one segment or two."""
    found = []
    for _ in range(times):
        took = 0.0
        for _ in range(each):
            first = ready.poll()
            if first is None:  # A backlog as small as this one is all taken.
                return found or [0.0]
            with first as bundle:  # What is read first, whoever reads it, is in no memory.
                dict(bundle)
                bundle.defer()
            took += clocked(lambda: ready.poll().ack())
        found.append(took / each)
    return found


def traced_bytes(make: Callable[[], Any]) -> int:
    """Make something that can be closed; say how much memory of Python and numpy it has."""
    make().close()  # What is imported when it is needed first is no memory of it.
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        made.close()
    finally:
        tracemalloc.stop()
    return after - before
