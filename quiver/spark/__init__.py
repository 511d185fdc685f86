"""Read and write a store with Spark, and read a queue.

Needs ``pip install 'quiver-store[spark]'``, Java included.

=================  ===========================================================================
``session``        a local Spark session that works out of the box
``java``           which Java it runs on
``datasource``     ``spark.read.format("quiver")``: what Spark asks first
``options``        the table of its options
``reader``         a batch read: reading the partitions of one snapshot
``tasks``          what a task is told, and how it reads its share
``filters``        Spark's filters as expressions over stored columns
``span``           ranges of segments
``partitions``     what each task reads
``schema``         Arrow types and values to Spark's
``batch``          batches of the size that Spark likes
``stream``         ``readStream``: what Spark asks of a source while a query runs
``stream_query``   what a streaming query asks of a store
``stream_driver``  decides what comes next, and acks
``stream_plan``    shares a micro-batch out into tasks
``stream_read``    reads the share of one task
``queue``          the same from a queue in object storage
``places``         the object store that a path names
``view``           ``format("quiver-view")``: what upserts have made
``otel``           telemetry: log records, spans and points of a store as joined rows
``sink``           ``df.write.format("quiver")`` and ``writeStream``: options, staging, commit
``sink_schema``    Spark types to Arrow's
``upsert``         keyed commands of any stream become a collection
``discovery``      what lets Spark find the sources by itself
``finding``        registers them where it does not
=================  ===========================================================================
"""

from __future__ import annotations

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        "quiver.spark needs PySpark: pip install 'quiver-store[spark]'", name="pyspark"
    ) from error

from quiver.spark.datasource import QuiverDataSource
from quiver.spark.session import session
from quiver.spark.upsert import upsert
from quiver.spark.view import QuiverViewDataSource

__all__ = ["QuiverDataSource", "QuiverViewDataSource", "session", "upsert"]
