"""A lock that is waited for, but not for ever: asked for again and again, at growing distances."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from quiver.disk.vfs import Disk, Lock
from quiver.errors import LockedError

__all__ = ["lock_within"]

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05


def lock_within(
    disk: Disk,
    path: str,
    seconds: float,
    *,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Lock:
    """Take the lock file at ``path``; raises LockedError if others hold it for so many seconds."""
    deadline = now() + seconds
    wait = _FIRST_PAUSE
    while True:
        try:
            return disk.lock(path)
        except LockedError:
            left = deadline - now()
            if left <= 0:
                raise
        pause(min(wait, left))
        wait = min(2 * wait, _LONGEST_PAUSE)
