"""Telemetry as rows: each log record, span and point with all that hangs from it.

Pure Arrow, one bundle at a time; ``quiver.spark.otel`` reads stores by it.
"""

from __future__ import annotations

from quiver.otel.joined.rows import SCHEMAS, SIGNALS, joined_rows
from quiver.otel.joined.trees import PLACES, places_in_trees

__all__ = ["PLACES", "SCHEMAS", "SIGNALS", "joined_rows", "places_in_trees"]
