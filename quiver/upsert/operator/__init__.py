"""Commands in, differences out: what a key had before is asked of what was persisted.

============  ==========================================================
``upsert``    stash, frontiers and look-ups together
``step``      what one step did
============  ==========================================================
"""

from quiver.upsert.operator.step import Step
from quiver.upsert.operator.upsert import WINDOW_BYTES, WINDOW_KEYS, Upsert

__all__ = ["WINDOW_BYTES", "WINDOW_KEYS", "Step", "Upsert"]
