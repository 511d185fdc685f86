"""Register with a session what Spark does not find by itself.

The wheel carries a module for each source, which Spark imports; a bare source tree has none.
"""

from __future__ import annotations

import importlib.util
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

__all__ = ["make_known"]

_REGISTERED: Final[WeakKeyDictionary[SparkSession, set[str]]] = WeakKeyDictionary()


def make_known(spark: SparkSession, module: str, source: type[DataSource]) -> None:
    """Register ``source`` unless there is ``module``, once: Spark warns of one that it has."""
    registered = _REGISTERED.setdefault(spark, set())
    if module not in registered and importlib.util.find_spec(module) is None:
        spark.dataSource.register(source)
        registered.add(module)
