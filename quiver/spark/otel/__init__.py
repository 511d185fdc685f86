"""Telemetry in Spark: log records, spans and points of a store as joined DataFrames.

::

    from quiver.spark import otel
    otel.logs(spark, "store").where("severity_number >= 17").select("time", "body", "resource")

``OTEL.md`` tells of columns and options.
"""

from __future__ import annotations

from quiver.spark.otel.frames import logs, points, span_tree, spans
from quiver.spark.otel.source import TelemetryDataSource

__all__ = ["TelemetryDataSource", "logs", "points", "span_tree", "spans"]
