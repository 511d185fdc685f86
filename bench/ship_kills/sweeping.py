"""The sweeper, as a process of its own, with a grace of seconds."""

from __future__ import annotations

import time
from typing import Final

from bench.kills.log import Log
from bench.ship_kills.setup import Setup
from quiver.clock import SystemClock
from quiver.errors import MissingError, QuiverError
from quiver.ship.shipper import loading
from quiver.ship.sweeper import Sweeper, Swept
from quiver.ship.sweeper import sweep as rounds
from quiver.units import SECOND

__all__ = ["shorten", "sweep", "sweep_once"]

_PAUSE: Final = 0.15


def sweep(setup: Setup, life: int) -> None:
    """Sweep again and again until killed."""
    log = Log(setup.log("sweeper"))
    while True:
        try:
            swept = sweep_once(setup)
        except MissingError:  # Nobody has begun the queue.
            pass
        except QuiverError as error:
            log.say("error", type(error).__name__, error)
        else:
            if swept.deleted_count:
                log.say("swept", life, swept.deleted_count)
        time.sleep(_PAUSE)


def sweep_once(setup: Setup) -> Swept:
    """Do one round."""
    queue = setup.queue("sweeper")
    shorten(setup)
    return Sweeper(queue, grace_ns=int(setup.grace * SECOND), clock=SystemClock()).sweep()


def shorten(setup: Setup) -> None:
    """Let grace and lateness, which are minutes, be seconds in this process, in the same order."""
    rounds.GRACE_MIN = f"{setup.grace}s"
    loading._LATE_NS = int(setup.late * SECOND)  # noqa: SLF001 Nobody else may set it.
