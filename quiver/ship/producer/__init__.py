"""Gathers what is produced into batches, and appends them to the queue one after the other.

=============  ===================================================================
``producer``   ``Producer``: the calls of many threads, one thread that sends
``gathering``  when a batch is due, and what goes into it; pure
``sender``     one batch: its bytes, its name, its upload, its entry in the queue
``handle``     how whoever called learns what became of it
=============  ===================================================================
"""

from quiver.ship.producer.handle import Durable, WriteHandle
from quiver.ship.producer.producer import Producer

__all__ = ["Durable", "Producer", "WriteHandle"]
