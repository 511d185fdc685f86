"""Take a bundle as soon as there is room for it, or refuse it when the time is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from quiver.engine import ingest
from quiver.engine.core import Core
from quiver.engine.progress import Progress
from quiver.errors import CapacityError
from quiver.payload import Payload
from quiver.units import MILLISECOND, SECOND, parse_duration

__all__ = ["block_ns", "take_in_time"]

_LOOK_AGAIN_NS: Final = 250 * MILLISECOND
"""Room on the disk may come from others, who tell nobody."""


def block_ns(core: Core, timeout: float | str | None) -> int:
    """Give how long an append waits for room: what the caller says, else what the options say."""
    if timeout is None:
        return core.config.retention.block_timeout
    return parse_duration(timeout, key="timeout")


def take_in_time(
    core: Core,
    payloads: tuple[Payload, ...],
    timeout_ns: int,
    *,
    tick: Callable[[], object],
    progress: Progress | None = None,
    later: bool = False,
    time_ns: int | None = None,
) -> ingest.Taken:
    """Take a bundle, to be written ``later`` if that is safe; this lets go of the lock to wait.

    ``tick`` is called before each look, since nobody else may make room; it also raises what makes
    waiting useless. Raises CapacityError if there is no room in time, and nothing is written then.
    """
    began_ns: int | None = None
    try:
        while True:
            try:
                return ingest.take(core, payloads, progress, later=later, time_ns=time_ns)
            except CapacityError:
                now = core.clock.monotonic_ns()
                if began_ns is None:
                    core.metrics.add("quiver.wal.throttled_appends")
                    began_ns = now
                rest_ns = began_ns + timeout_ns - now
                # A thread that is in the middle of writing a segment would wait for itself.
                if rest_ns <= 0 or core.writer == threading.get_ident():
                    raise
            core.changed.wait(min(rest_ns, _LOOK_AGAIN_NS) / SECOND)
            tick()
    finally:
        if began_ns is not None:
            core.metrics.add("quiver.wal.throttled", core.clock.monotonic_ns() - began_ns)
