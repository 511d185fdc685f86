"""What Spark finds by itself for ``format("quiver-view")``: a module has one ``DefaultSource``.

The name of a format is what the class says, so that of the module need not be it.
"""

from quiver.spark.view import QuiverViewDataSource as DefaultSource

__all__ = ["DefaultSource"]
