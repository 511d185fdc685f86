"""A queue in object storage: many producers, one fenced consumer, no broker.

============  ==========================================================================
room          what it does
============  ==========================================================================
``objects``   what is asked of a store, and the stores that give it
``batch``     the bytes of a data batch, one object for each flush
``queue``     the bytes of the manifest, and each change of it: append, fence, dequeue
``producer``  gathers what is produced and appends it as batches
``consumer``  reads batches in order, acks them, and fences who came before
``sweeper``   deletes batches that nobody points to any more
``shipper``   finalized segments of a store into the queue, and back into a store
============  ==========================================================================

``open_queue`` is where to begin::

    queue = quiver.ship.open_queue("s3://bucket/queue", environ=os.environ)
    with quiver.ship.Producer(queue) as producer:
        producer.produce([b"one", b"two"]).wait_durable()

``QUEUE.md`` tells how it is used, and what is promised.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver.ship.consumer import Batch, Consumer, Descriptor, Fetcher
    from quiver.ship.objects import open_bucket
    from quiver.ship.opening import open_queue
    from quiver.ship.producer import Durable, Producer, WriteHandle
    from quiver.ship.queue import Queue, QueueOptions
    from quiver.ship.shipper import RestoreOptions, Restorer, ShipOptions, Shipper
    from quiver.ship.sweeper import Sweeper

__all__ = [
    "Batch",
    "Consumer",
    "Descriptor",
    "Durable",
    "Fetcher",
    "Producer",
    "Queue",
    "QueueOptions",
    "RestoreOptions",
    "Restorer",
    "ShipOptions",
    "Shipper",
    "Sweeper",
    "WriteHandle",
    "open_bucket",
    "open_queue",
]

_LAZY = {
    "Batch": "consumer",
    "Consumer": "consumer",
    "Descriptor": "consumer",
    "Durable": "producer",
    "Fetcher": "consumer",
    "Producer": "producer",
    "Queue": "queue",
    "QueueOptions": "queue",
    "RestoreOptions": "shipper",
    "Restorer": "shipper",
    "ShipOptions": "shipper",
    "Shipper": "shipper",
    "Sweeper": "sweeper",
    "WriteHandle": "producer",
    "open_bucket": "objects",
    "open_queue": "opening",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a room only when it is asked for: who fetches batches needs no shipper."""
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module 'quiver.ship' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"quiver.ship.{room}"), name)
    globals()[name] = value
    return value
