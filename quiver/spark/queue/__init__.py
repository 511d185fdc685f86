"""Read a queue in object storage with Spark: what stores on other machines shipped into it.

============  ===========================================================================
``address``   which paths are queues, and their object store
``source``    what the data source does with one: snapshot, schema, readers
``entries``   which segments entries bring, each once
``slots``     what a slot looks like in the whole queue
``record``    a record as the segment that it is
``shares``    what each task reads
``fetching``  batches, one ahead, and those that cannot be had
``recipe``    how a task reads a slot
``raw``       how it reads records that are no segments
``reader``    a batch read
``query``     what a streaming query asks of a queue
``offsets``   how far it is, in its checkpoint
``memory``    which columns it reads, in its checkpoint
``driver``    decides what comes next, and owns the consuming end
``acks``      dequeues what is committed and durable
============  ===========================================================================
"""

from quiver.spark.queue.reader import QueueReader
from quiver.spark.queue.source import QueueSource, queue_at

__all__ = ["QueueReader", "QueueSource", "queue_at"]
