"""Calls to a store out of the midst of another call of the same thread: they are refused.

A signal handler runs between two steps of whatever its thread is at, and so may what a disk or a
listener calls. The locks are reentrant and would let it in: a second bundle would get the number of
the first, and who writes or syncs would wait for itself.
"""

from __future__ import annotations

import threading

from quiver.errors import CapacityError

__all__ = ["is_mine", "refusal"]


def is_mine(lock: threading.RLock) -> bool:
    """Whether this thread has it."""
    return bool(lock._is_owned())  # type: ignore[attr-defined]  # noqa: SLF001


def refusal() -> CapacityError:
    """Say that a call comes out of another one."""
    return CapacityError(
        "this thread is in the middle of another call to the store",
        hint="this call comes out of that, as a signal handler's does: repeat it afterwards",
    )
