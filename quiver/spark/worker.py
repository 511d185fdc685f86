"""What this process owes to being one of Spark's Python workers.

Spark keeps them for the next task, and has each look through all of its objects for garbage first.
With what a source imports that takes 40 ms of CPU, after each task and each step of planning, and
the next one waits for it.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["is_worker", "settle"]

_DAEMON: Final = "pyspark.daemon"


def is_worker(main: object = None) -> bool:
    """Whether this process is one that Spark keeps for tasks and for planning."""
    spec = getattr(sys.modules.get("__main__") if main is None else main, "__spec__", None)
    return getattr(spec, "name", None) == _DAEMON


def settle(main: object = None) -> bool:
    """Have the collector pass over what is there now, if this is a worker and has not done so.

    That is modules, which stay. What dies by its count is freed as ever. Says whether it did.
    """
    if not is_worker(main) or gc.get_freeze_count():
        return False
    gc.collect()
    gc.freeze()
    return True
