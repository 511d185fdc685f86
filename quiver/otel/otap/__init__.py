"""OTAP: telemetry as Arrow over gRPC streams that live long, in and out.

[The bytes](FORMAT.md). Nothing here knows a network: ``receivers`` and ``exporters`` do.

=============  ===========================================================================
``format``     the messages of a stream
``columns``    which columns a payload may have, and how its ids may be encoded
``plain``      ids as they are, out of ids as they travel
``transport``  the other way
``reading``    what comes in on one stream
``writing``    what goes out on one
=============  ===========================================================================
"""

from __future__ import annotations

from quiver.otel.otap.reading import BrokenStreamError, StreamLimits, StreamReader
from quiver.otel.otap.writing import PayloadCompression, StreamWriter

__all__ = [
    "BrokenStreamError",
    "PayloadCompression",
    "StreamLimits",
    "StreamReader",
    "StreamWriter",
]
