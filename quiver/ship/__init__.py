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
"""

__all__: list[str] = []
