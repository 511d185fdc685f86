"""``spark.read.format("quiver-view")``: what upserts have made, as a table or as its changes.

==============  =========================================================================
``datasource``  what Spark asks first
``options``     the table of its options
``source``      one snapshot of a collection: its schema, its readers
``plan``        which times are read, and how much that is
``shares``      what each task reads
``recipe``      how it reads that
``reader``      a batch read
``pruning``     which buckets have the keys that filters ask for
``query``       what a streaming query asks of a collection
``offsets``     how far it is, in its checkpoint
``driver``      decides what comes next
==============  =========================================================================
"""

from quiver.spark.view.datasource import QuiverViewDataSource

__all__ = ["QuiverViewDataSource"]
