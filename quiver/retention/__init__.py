"""What is deleted, and when appends must wait: pure functions from bytes in use to actions.

==========  ==================================================
``usage``   what is on the disk
``policy``  what is to be done about it
``age``     how old segments are, whatever the wall clock says
``format``  the bytes in which that outlives a restart
==========  ==================================================
"""

from quiver.retention.age import Ages, Mark, Saved, saved_from_times
from quiver.retention.policy import (
    Action,
    Drop,
    DropOpen,
    Evict,
    Expire,
    FinalizeEarly,
    Throttle,
    decide,
)
from quiver.retention.usage import SegmentUse, Usage

__all__ = [
    "Action",
    "Ages",
    "Drop",
    "DropOpen",
    "Evict",
    "Expire",
    "FinalizeEarly",
    "Mark",
    "Saved",
    "SegmentUse",
    "Throttle",
    "Usage",
    "decide",
    "saved_from_times",
]
