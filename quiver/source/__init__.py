"""What Quiver reads from: splits that go on where a state says, for whatever runs them.

==============  ===================================================================
``protocols``   ``Connector``, ``SplitEnumerator``, ``SplitReader``: what there is to implement
``states``      states as text: canonical JSON with its connector and version
==============  ===================================================================

A connector is a folder of its own in here. Nothing in this room knows Spark.
"""

from quiver.source.protocols import (
    Connector,
    Split,
    SplitBatch,
    SplitEnumerator,
    SplitReader,
    States,
)
from quiver.source.states import decode_state, encode_state

__all__ = [
    "Connector",
    "Split",
    "SplitBatch",
    "SplitEnumerator",
    "SplitReader",
    "States",
    "decode_state",
    "encode_state",
]
