"""DataFrames over a store of telemetry."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quiver.errors import InputError
from quiver.otel.joined import PLACES, places_in_trees
from quiver.spark.finding import make_known
from quiver.spark.otel.source import TelemetryDataSource
from quiver.spark.schema import to_spark_schema

__all__ = ["logs", "points", "span_tree", "spans"]


def logs(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """Give a row for each log record, its attributes and those of its resource as maps."""
    return _load(spark, path, "logs", stream=stream, options=options)


def spans(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """Give a row for each span, with its events and links as lists."""
    return _load(spark, path, "spans", stream=stream, options=options)


def points(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """Give a row for each data point of a metric, of whatever kind."""
    return _load(spark, path, "points", stream=stream, options=options)


def _load(
    spark: SparkSession,
    path: str | os.PathLike[str],
    rows: str,
    *,
    stream: bool,
    options: dict[str, str],
) -> DataFrame:
    make_known(spark, "pyspark_quiver_telemetry", TelemetryDataSource)
    reader = spark.readStream if stream else spark.read
    told = reader.format(TelemetryDataSource.name()).option("rows", rows).options(**options)
    return told.load(os.path.abspath(os.fspath(path)))


def span_tree(spans: DataFrame, *, depth_max: int = 64) -> DataFrame:
    """Add ``depth``, ``path`` and ``root_span_id`` to spans that name their parents.

    ``path`` has the names from the root down to the span itself. A span whose parent is not there
    is a root, of depth 0; one that is in a circle, or deeper than ``depth_max``, has nulls. A span
    that came twice, as may be where something was sent again, is one row; one without an id, which
    nothing tells from others, stays as often as it came, with nulls.
    """
    if spans.isStreaming:
        raise InputError(
            "a tree of spans is made of all spans, which a stream never has",
            hint="write the stream to a table, and make the tree of that",
        )
    named = spans["trace_id"].isNotNull() & spans["span_id"].isNotNull()
    once = spans.where(named).dropDuplicates(["trace_id", "span_id"])
    known = once.unionAll(spans.where(~named))
    nodes = once.select("trace_id", "span_id", "parent_span_id", "name").repartition("trace_id")

    def placed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return places_in_trees(batches, depth_max)

    places = nodes.mapInArrow(placed, to_spark_schema(PLACES))
    return known.join(places, ["trace_id", "span_id"], "left")
