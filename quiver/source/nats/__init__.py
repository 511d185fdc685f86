"""Streams of NATS JetStream, message by message; needs the extra ``nats``.

==============  ===================================================================
``connector``   the options; makes enumerators and readers
``reader``      one stream, or one subject of it, from a sequence on
``pulling``     a consumer on the server that may be lost at any time, and its messages
``link``        one connection, asked from threads
==============  ===================================================================

The server keeps nothing for us: where a reader is stands in its state, as the sequence of the last
message.
"""

from quiver.source.nats.connector import NatsConnector, NatsOptions

__all__ = ["NatsConnector", "NatsOptions"]
