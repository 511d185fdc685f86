"""Deletes batches that nobody points to any more, and pages that the manifest names no longer.

=========  =======================================================================
``rules``  which objects may go; pure
``sweep``  one round: look, judge, delete
``task``   a thread that does a round now and then
=========  =======================================================================
"""

from quiver.ship.sweeper.rules import GRACE
from quiver.ship.sweeper.sweep import Sweeper, Swept
from quiver.ship.sweeper.task import INTERVAL, SweeperTask

__all__ = ["GRACE", "INTERVAL", "Sweeper", "SweeperTask", "Swept"]
