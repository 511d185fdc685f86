"""Keyed commands of any stream become a differential collection: ``quiver.spark.upsert``.

==============  ===========================================================================
``columns``     which columns say what
``splits``      where rows come from, and which are in already
``places``      what orders rows that come from Quiver
``formulas``    columns, and simple conditions on them, as Arrow has them
``translating`` which of Spark's expressions are such
``relation``    what Spark's plans say of a stream that is columns of a store
``straight``    rows of a store read by who works on them
``preparing``   a task's first step: commands, one for each key, packed by bucket
``wire``        commands on their way through the shuffle
``applying``    a task's second step: look up, tell differences, write a run
``sharing``     both steps at once, of rows that are read straight
``ways``        which way a batch goes
``fitting``     what a query's columns are in a collection that is there
``recovery``    whether a batch is in already, and which of its rows
``tending``     the collection tended behind a batch, by the tasks where there is much to fold
``batches``     what the driver does with each micro-batch
==============  ===========================================================================

Python processes of Spark import this package for other things too, so it loads these when it is
called. ``UPSERT.md`` has what is promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["upsert"]


def upsert(
    stream: DataFrame,
    *,
    into: str,
    key: str | Sequence[str],
    value: str | Sequence[str] | None = None,
    order_by: str | Column | Sequence[str | Column] | None = None,
    delete_when: str | Column | None = None,
    offsets: str | Sequence[str] | None = None,
    source: str | None = None,
    buckets: int | None = None,
    misfit: Literal["fail", "error"] = "fail",
    history: int = 100,
    checkpoint: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """Give the writer whose ``start()`` runs the query that upserts a stream into a collection.

    ``into`` is a folder that all workers see, or a URL of a bucket, reached with ``options``
    (``quiver.ship.objects.options``). ``key`` and ``value`` name columns; without ``value`` it is
    all that nothing else is said of. Of two commands for a key in one micro-batch the one with the
    greater ``order_by`` wins, and the later micro-batch over the earlier. A command deletes its key
    if ``delete_when``, SQL or a column, is true; without it, if all columns of the value are null.

    ``offsets`` names the columns of the split and, last, of the offset in it that rows come from:
    with them each row is in once even if the checkpoint is lost. Of ``format("quiver")`` with
    ``includeMetadata`` both they and the order are known. ``source`` is the name under which the
    collection keeps them: another stream needs another one. Without, it is ``quiver:<slot>`` of
    one slot of Quiver, else ``spark``. ``buckets`` is asked for when the collection is made.

    The query that started last has the collection: another one ends with FencedError. With
    ``misfit="error"`` a row whose column does not fit into the collection becomes an error row.

    Raises ConfigError or InputError for what makes no sense; the collection is made by the first
    micro-batch.
    """
    from quiver.spark.upsert.query import Given, prepare_query

    given = Given(
        into=into,
        key=key,
        value=value,
        order_by=order_by,
        delete_when=delete_when,
        offsets=offsets,
        source=source,
        buckets=buckets,
        misfit=misfit,
        history=history,
        options=options or {},
    )
    writer = prepare_query(stream, given)
    return writer if checkpoint is None else writer.option("checkpointLocation", checkpoint)
