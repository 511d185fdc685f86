"""The wire between nodes, loaders and cursors: Arrow Flight, with the care that it needs.

============  ====================================================================
``messages``  what is asked and answered, as values
``format``    their bytes, and the heads of frames; ``FORMAT.md`` is the spec
``faults``    errors as text with a code that stays
``settings``  times, sizes, certificates, a token
``watch``     notices silence
``bodies``    frames as batches of Flight
``flights``   what Flight raises, and what is made of it
``owner``     no connection goes through a fork
``outgoing``  the sending side of a stream
``client``    ``RemotePeer``: a node that is reached over the wire
``incoming``  the receiving side of a stream
``answering`` calls that move no data
``telling``   acks of a tail, by whoever synced
``listening`` and who listens to them
``server``    ``Server``: any peer on the wire
``carried``   metadata by way of nodes
============  ====================================================================
"""

from __future__ import annotations

from quiver.chain.wire.carried import CarriedMetadata
from quiver.chain.wire.client import RemotePeer
from quiver.chain.wire.server import Server
from quiver.chain.wire.settings import Tls, WireOptions, read_tls

__all__ = ["CarriedMetadata", "RemotePeer", "Server", "Tls", "WireOptions", "read_tls"]
