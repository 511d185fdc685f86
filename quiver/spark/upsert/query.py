"""From what a caller said to a query that can be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from quiver.errors import ConfigError, InputError
from quiver.spark.places import bucket_at
from quiver.spark.upsert.batches import Batches, Target, look
from quiver.spark.upsert.columns import Asked, choose, names_of, source_of
from quiver.spark.upsert.fitting import MISFITS
from quiver.spark.upsert.recovery import BEFORE
from quiver.spark.upsert.relation import batch_of, relation_of
from quiver.spark.upsert.straight import straight_of
from quiver.upsert.rows import Misfit

__all__ = ["BUCKETS", "Given", "prepare_query"]

BUCKETS: Final = 16
_BUCKETS_MAX: Final = 1 << 16


@dataclass(frozen=True)
class Given:
    """The arguments of ``upsert``."""

    into: str
    key: str | Sequence[str]
    value: str | Sequence[str] | None
    order_by: str | Column | Sequence[str | Column] | None
    delete_when: str | Column | None
    offsets: str | Sequence[str] | None
    source: str | None
    buckets: int | None
    misfit: Misfit
    history: int
    options: Mapping[str, str]


def prepare_query(stream: DataFrame, given: Given) -> DataStreamWriter:
    """Check all that can be checked before anything runs, and give the writer of the query."""
    if not isinstance(stream, DataFrame):
        raise InputError(f"a {type(stream).__name__} is no DataFrame of this Spark")
    if not stream.isStreaming:
        raise InputError("upsert takes a stream", hint="as spark.readStream gives it")
    _check(given)
    store = bucket_at(given.into, given.options, noun="collection")
    collection = look(store)
    known = None if collection is None else collection.snapshot().definition
    buckets = given.buckets or (BUCKETS if known is None else known.buckets)
    if known is not None and known.buckets != buckets:
        raise ConfigError(
            f"buckets: the collection has {known.buckets:,}, not {buckets:,}",
            hint="the number is chosen once, when it is made: leave it away",
        )
    chosen = choose(stream, _asked(given), buckets=buckets)
    source = given.source or source_of(stream)
    target = Target(store, chosen.definition, source, misfit=given.misfit, history=given.history)
    if known is not None:
        target.fit(known)
    relation = relation_of(chosen.frame)
    straight = None if relation is None else straight_of(relation, chosen.reading)
    covered = partial(batch_of, stream.sparkSession)
    batches = Batches(target, chosen.reading, straight, look=covered)
    return chosen.frame.writeStream.foreachBatch(batches)


def _asked(given: Given) -> Asked:
    order = given.order_by
    return Asked(
        key=names_of("key", given.key) or (),
        value=names_of("value", given.value),
        order_by=(order,) if isinstance(order, str | Column) else order,
        delete_when=given.delete_when,
        offsets=names_of("offsets", given.offsets),
    )


def _check(given: Given) -> None:
    if given.source == "" or (given.source or "").endswith(BEFORE):
        raise ConfigError(f"source: {given.source!r:.60} is no name of a source")
    if given.misfit not in MISFITS:
        raise ConfigError(f"misfit: {given.misfit!r:.60} is none", hint=" or ".join(MISFITS))
    for name, number, most in (
        ("buckets", given.buckets, _BUCKETS_MAX),
        ("history", given.history, 1 << 62),
    ):
        if number is not None and not (type(number) is int and 1 <= number <= most):
            raise ConfigError(f"{name}: {number!r:.60} is none", hint=f"1 to {most:,}")
