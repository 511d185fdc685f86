"""What Spark finds by itself: it imports each ``pyspark_*`` module and registers ``DefaultSource``.

With the wheel installed, ``spark.read.format("quiver")`` therefore needs no registration.
"""

from quiver.spark.datasource import QuiverDataSource as DefaultSource

__all__ = ["DefaultSource"]
