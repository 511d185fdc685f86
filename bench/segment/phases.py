"""Where the time of a finalize goes: timers around the functions that do its parts.

A timer counts what its function takes, less what timers inside it count. Functions are named by
module and name; those that are not there (any more) are left out, and what nobody counts is the
rest. Each thread counts for itself: phases that overlap may add up to more than the whole.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["PHASES", "phases"]

PHASES: dict[str, tuple[str, ...]] = {
    "decode, unite, encode what is left": ("quiver.segment.builder:SegmentBuilder.add",),
    "put streams together": ("quiver.segment.builder:SegmentBuilder.finish",),
    "checksums, beside the write": ("quiver.segment.layout:Checks.add_streams",),
    "tables, beside the write": ("quiver.segment.contents:Contents.encode_end",),
    "write": ("quiver.disk.local_file:LocalFile.write",),
    "sync": (
        "quiver.disk.local_file:LocalFile.sync",
        "quiver.disk.local:LocalDisk.sync_dir",
    ),
}


class _Clock(threading.local):
    """What each thread is in: the time that inner timers took, innermost last."""

    def __init__(self) -> None:
        self.inner: list[float] = [0.0]


@contextmanager
def phases() -> Iterator[dict[str, float]]:
    """Count seconds of each phase inside the block."""
    found = dict.fromkeys(PHASES, 0.0)
    clock, lock = _Clock(), threading.Lock()
    undo: list[tuple[Any, str, Any]] = []

    def timer(phase: str, act: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(act)
        def timed(*args: Any, **kwargs: Any) -> Any:
            clock.inner.append(0.0)
            begun = time.perf_counter()
            try:
                return act(*args, **kwargs)
            finally:
                took = time.perf_counter() - begun
                inner = clock.inner.pop()
                clock.inner[-1] += took
                with lock:
                    found[phase] += took - inner

        return timed

    try:
        for phase, names in PHASES.items():
            for name in names:
                for owner, attribute in _holders(name):
                    act = getattr(owner, attribute)
                    undo.append((owner, attribute, act))
                    setattr(owner, attribute, timer(phase, act))
        yield found
    finally:
        for owner, attribute, act in reversed(undo):
            setattr(owner, attribute, act)


def _holders(name: str) -> list[tuple[Any, str]]:
    """Find a function, wherever modules of ours have imported it to."""
    module_name, _, path = name.partition(":")
    try:
        owner = importlib.import_module(module_name)
        *outer, attribute = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        act = getattr(owner, attribute)
    except (ImportError, AttributeError):
        return []
    if outer:
        return [(owner, attribute)]
    modules = [m for n, m in sys.modules.items() if n.startswith("quiver") or m is owner]
    return [(m, attribute) for m in modules if getattr(m, attribute, None) is act]
