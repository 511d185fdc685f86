"""What is deleted, and when appends must wait: pure functions from bytes in use to actions.

==========  ==================================================
``usage``   what is on the disk
``policy``  what is to be done about it
==========  ==================================================
"""

from quiver.retention.policy import Action, Drop, Evict, FinalizeEarly, Throttle, decide
from quiver.retention.usage import SegmentUse, Usage

__all__ = [
    "Action",
    "Drop",
    "Evict",
    "FinalizeEarly",
    "SegmentUse",
    "Throttle",
    "Usage",
    "decide",
]
