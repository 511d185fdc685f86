"""What Spark's plans say: whether a stream is columns of a store, and what of it a batch has.

These are names of Spark's inside. Where they are others the answer is None, and rows come the way
of any stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from quiver.spark.upsert.formulas import Formula
from quiver.spark.upsert.translating import Find, Untold, each, id_of, translated

__all__ = ["LEAF", "Covered", "Relation", "batch_of", "leaves_of", "relation_of"]

LEAF: Final = "StreamingRelationV2"
_SCAN: Final = "StreamingDataSourceV2ScanRelation"
_EXEC: Final = "MicroBatchScanExec"
_ROWS: Final = "numOutputRows"
_OTHER_SPARK: Final = (Py4JError, PySparkException, AttributeError, TypeError)


class Relation(NamedTuple):
    """A stream of our format, of which a DataFrame has all rows."""

    options: Mapping[str, str]
    schema: StructType
    columns: tuple[Formula, ...]
    """What each one of the DataFrame is, in terms of its own."""


class Covered(NamedTuple):
    """What a batch of a query has of its only source."""

    start: Mapping[str, Any]
    end: Mapping[str, Any]
    execution: Any

    def tell(self, rows: int) -> None:
        """Have the progress of the query show how many rows were read, as nobody told Spark."""
        with suppress(*_OTHER_SPARK):
            for leaf in each(self.execution.executedPlan().collectLeaves()):
                if _kind(leaf) == _EXEC:
                    leaf.metrics().apply(_ROWS).add(rows)


def relation_of(frame: DataFrame) -> Relation | None:
    """Give the stream whose columns a DataFrame has, or what is simply made of them; else None."""
    node: Any = cast("Any", frame)._jdf.queryExecution().analyzed()  # noqa: SLF001
    try:
        wanted = [id_of(column) for column in each(node.output())]
        layers = list[dict[int, Any]]()
        while (kind := _kind(node)) != LEAF:
            if kind == "Project":
                layers.append({id_of(column): column for column in each(node.projectList())})
            elif kind != "SubqueryAlias":
                return None
            node = node.child()
        if node.sourceName() != "quiver":
            return None
        names = {id_of(column): str(column.name()) for column in each(node.output())}
        schema = StructType.fromJson(json.loads(node.schema().json()))
        options = dict(node.extraOptions().asCaseSensitiveMap())
        find = _finder(layers, names)
        return Relation(options, schema, tuple(translated(one, find) for one in wanted))
    except (*_OTHER_SPARK, KeyError, ValueError, Untold):
        return None


def _finder(layers: Sequence[Mapping[int, Any]], names: Mapping[int, str], at: int = 0) -> Find:
    """Say how columns are found below some projections."""

    def find(number: int) -> tuple[Any, Find] | str:
        if at == len(layers):
            return names[number]
        return layers[at][number], _finder(layers, names, at + 1)

    return find


def batch_of(spark: SparkSession, query: str, number: int) -> Covered | None:
    """Say what the batch that a query is at has of its source, if there is one source."""
    try:
        found: Any = spark.streams.get(query)
        execution = found._jsq.streamingQuery().lastExecution()  # noqa: SLF001
        leaves = list(each(execution.logical().collectLeaves()))
        if execution.currentBatchId() != number or len(leaves) != 1 or _kind(leaves[0]) != _SCAN:
            return None
        ends = [leaves[0].startOffset(), leaves[0].endOffset()]
        start, end = (json.loads(offset.get().json()) for offset in ends)
        return Covered(start, end, execution)
    except _OTHER_SPARK:
        return None


def leaves_of(frame: DataFrame) -> Iterator[Any]:
    """Give what a stream is read from, as Spark has it."""
    plan: Any = cast("Any", frame)._jdf.queryExecution().analyzed()  # noqa: SLF001
    return each(plan.collectLeaves())


def _kind(node: Any) -> str:  # noqa: ANN401
    return str(node.getClass().getSimpleName())
