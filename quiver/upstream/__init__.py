"""What the Rust Quiver (OpenTelemetry Arrow) wrote, read and never changed.

============  ===========================================================================
``format``    bytes of its log, its cursor and its progress files; ``FORMAT.md`` is the page
``reader``    a file of its log, entry by entry, past damage
``log``       which of these entries no segment holds
``folder``    a whole folder: segments, log, subscribers
============  ===========================================================================

Its segments are read by ``quiver.segment``, whose format is a superset of theirs.
"""

from quiver.upstream.folder import (
    UpstreamCore,
    UpstreamFolder,
    UpstreamSegment,
    UpstreamSubscriber,
    find,
    slot_name,
)
from quiver.upstream.log import BadRange, LoggedBundle, UpstreamLog

__all__ = [
    "BadRange",
    "LoggedBundle",
    "UpstreamCore",
    "UpstreamFolder",
    "UpstreamLog",
    "UpstreamSegment",
    "UpstreamSubscriber",
    "find",
    "slot_name",
]
