"""What Spark finds by itself for ``format("quiver-telemetry")``: a store of telemetry as rows."""

from quiver.spark.otel import TelemetryDataSource as DefaultSource

__all__ = ["DefaultSource"]
