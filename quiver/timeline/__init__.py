"""The times of one partition's bundles: which may come next, and what others may rely on.

==========  ================================================================================
``rule``    the time of the next bundle: given by the store, or by the caller and checked
``format``  the bytes of the files ``timeline`` and ``heartbeat``; ``FORMAT.md`` describes them
==========  ================================================================================
"""

from quiver.timeline.format import TIMELINE_BYTES, Saved, decode_timeline, encode_timeline
from quiver.timeline.rule import TIME_MAX, Time, Times, TimesMark, time_ns

__all__ = [
    "TIMELINE_BYTES",
    "TIME_MAX",
    "Saved",
    "Time",
    "Times",
    "TimesMark",
    "decode_timeline",
    "encode_timeline",
    "time_ns",
]
