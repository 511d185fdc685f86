"""Read the share of one task, and see that its columns are those that the query knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Protocol

import pyarrow as pa

from quiver.checkpoint import CheckpointFolder
from quiver.disk import LocalDisk
from quiver.errors import ConfigError, InputError, MissingError, SourceError
from quiver.events import Events
from quiver.promote import common_type
from quiver.scan import conform
from quiver.schemas import same_schema_as, same_type
from quiver.source.stores import Span, read_timed
from quiver.spark.batch import gather, split
from quiver.spark.schema import to_spark_all
from quiver.spark.stream_query import StreamQuery
from quiver.spark.tasks import Place, open_store, with_place

__all__ = ["check_query", "check_schema", "read_bundles", "read_share"]


class Asked(Protocol):
    """What a query says of its columns."""

    @property
    def slot(self) -> str:
        """Whose columns they are."""
        ...

    @property
    def in_files(self) -> pa.Schema:
        """Those that are read, without those that no file has."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Whether they were named, so that others are no change."""
        ...

    @property
    def ignores_change(self) -> bool:
        """Whether new ones are left out."""
        ...


_RESTART = "stop the query and start it again with the same checkpoint: it takes them up then"


def read_share(query: StreamQuery, spans: Iterable[Span]) -> Iterator[pa.RecordBatch]:
    """Give the rows of some spans, in order, in batches as Spark likes them."""
    return gather(_conformed(query, spans), query.stored, to_spark_all(query.target))


def read_bundles(
    query: StreamQuery, spans: Iterable[Span], columns: Sequence[str] | None = None
) -> Iterator[tuple[Place, pa.RecordBatch]]:
    """Give the bundles of some spans, in order, each as it is stored; ``columns`` are needed of it.

    Raises InputError for columns that the query does not know, SourceError for a segment that went.
    """
    names = query.in_files.names if columns is None else columns
    checked = list[Callable[[pa.Schema], bool]]()
    with closing(open_store(query.path, query.store_id)) as disk:
        for span in spans:
            core, segment_seq = span.segment.core, span.segment.segment_seq
            for index, time, batch in _read(
                disk, span, query, columns=names if query.is_fixed else None
            ):
                if not any(is_same(batch.schema) for is_same in checked):
                    check_schema(batch.schema, query, place=_place(span))
                    checked.append(same_schema_as(batch.schema))
                yield Place(core, segment_seq, index, time, query.store_id), batch


def _conformed(query: StreamQuery, spans: Iterable[Span]) -> Iterator[pa.RecordBatch]:
    in_files = query.in_files
    is_ready = same_schema_as(in_files)
    for place, batch in read_bundles(query, spans):
        first = 0
        for part in split(batch):
            rows = part if is_ready(part.schema) else conform(part, in_files)
            if query.metadata:
                rows = conform(with_place(rows, place, first), query.stored)
                first += part.num_rows
            yield rows


def _read(
    disk: LocalDisk, span: Span, query: StreamQuery, *, columns: Sequence[str] | None
) -> Iterator[tuple[int, int | None, pa.RecordBatch]]:
    try:
        yield from read_timed(disk, span, query.slot_id, columns=columns)
    except MissingError as error:
        if query.fails_on_loss:
            raise SourceError(
                f"{_place(span)} went while the query was about to read it",
                split=f"core_{span.segment.core}",
                hint="read with the option subscriber, which keeps data from being deleted; or go "
                "on with what is left: failOnDataLoss=false",
            ) from error
        events = Events(store=query.path, core=span.segment.core)
        events.warning("spark.segment_lost", segment_seq=span.segment.segment_seq)
        events.tell()


def _place(span: Span) -> str:
    return f"segment {span.segment.segment_seq} of core {span.segment.core}"


def check_schema(found: pa.Schema, query: Asked, *, place: str) -> None:
    """Raise InputError if data has columns that the query does not know, or cannot hold.

    New ones are left out if the query ignores changes, or has named its own.
    """
    known = query.in_files
    new = [name for name in found.names if name not in known.names]
    if new and not (query.is_fixed or query.ignores_change):
        raise InputError(
            f"{place} has new columns of slot {query.slot!r}: {', '.join(new)}",
            hint=f"{_RESTART}; or leave them out: schemaChange=ignore",
        )
    for field in known:
        index = found.get_field_index(field.name)
        if index < 0:
            continue
        kind = found.field(index).type
        joined = common_type(field.type, kind)
        if joined is None or not same_type(joined, field.type):
            raise InputError(
                f"{place} has column {field.name!r} of slot {query.slot!r} as {kind}, and the "
                f"query was started with {field.type}",
                hint=_RESTART if joined is not None else "leave the column out: columns=...",
            )


def check_query(checkpoint: str, query_id: str | None) -> None:
    """Raise ConfigError if the checkpoint that acks are made from is another query's.

    Only where the checkpoint can be seen, and Spark tells which query it is.
    """
    if not checkpoint or not query_id:
        return
    with closing(CheckpointFolder(checkpoint)) as folder:
        disk = folder.disk
        if disk is None or disk.stat("metadata") is None:
            return
        with closing(disk.open("metadata")) as file:
            text = file.read(0, 1 << 16)
    found = json.loads(text or "{}").get("id", query_id)
    if found != query_id:
        raise ConfigError(
            f"checkpointLocation: {checkpoint} is of query {found}, and this is {query_id}",
            hint="say what the writer of this query is told",
        )
