"""Small payloads of one schema as one stream, their dictionaries united by Arrow itself.

A few calls for all of them together, where ``stream`` has some for each: worth it where there is
little time, and where words are few. What it cannot do is left to ``stream``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from quiver.config import SegmentConfig
from quiver.ipc import encode_file
from quiver.schemas import Kind
from quiver.segment.body import Body
from quiver.segment.bounds import column_bounds
from quiver.segment.nulls import count_nulls
from quiver.segment.stream import Chunks, FinishedStreams, growing_columns, ranges_of
from quiver.segment.sums import Piece

__all__ = ["unite_small"]

_UNABLE: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def unite_small(
    schema: pa.Schema, chunks: Chunks, event_column: str, *, config: SegmentConfig
) -> FinishedStreams | None:
    """Make one stream of all chunks; None if Arrow cannot, or not with values as they are."""
    places = growing_columns(schema)
    rows = [batch.num_rows for batch in chunks.batches]
    if places is None or not all(rows) or not len(schema) or config.compression != "none":
        return None
    table = pa.Table.from_batches(chunks.batches, schema)
    try:
        for place in places:
            column = _united(table.column(place), config.dictionary_cardinality)
            if column is None:
                return None
            table = table.set_column(place, schema.field(place), column)
        data = encode_file(schema, table, body_bytes=sum(map(len, chunks.payloads)))
    except _UNABLE:
        return None
    return FinishedStreams(
        schema,
        chunks.bundles,
        rows,
        ranges_of(schema, event_column, chunks.batches),
        count_nulls(table),
        tuple(column_bounds(table)),
        Body([Piece(memoryview(data))]),
    )


def _united(column: Any, cardinality: int) -> Any:  # noqa: ANN401
    if not _is_exact(column.type.value_type):
        return None
    united = column.unify_dictionaries()
    return None if len(united.chunk(0).dictionary) > cardinality else united


def _is_exact(kind: Kind) -> bool:
    """Whether values that are equal to Arrow are the same bit for bit."""
    return bool(
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_integer(kind)
    )
