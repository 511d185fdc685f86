"""Columns as a table keeps them: no dictionaries, which differ from batch to batch, and one zone.

Parquet has dictionaries of its own. Times are UTC, whether the sender wrote so or not, and stand in
microseconds, since many readers, Spark among them, refuse nanoseconds; what is below is in a column
beside, so nothing is lost.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts import CAST_FAULTS
from quiver.casts.nested import Conversion, convert
from quiver.errors import InputError
from quiver.otel.nodes import Place
from quiver.schemas import change_children

__all__ = ["PLACE_FIELDS", "plain_batch", "readable", "try_schema", "with_place"]

_HOW: Final = Conversion(lambda array, kind: array.cast(kind))
_KEPT: Final = (kinds.is_struct, kinds.is_list, kinds.is_large_list, kinds.is_map)

_NS_IN_US: Final = 1000
_NANOSECONDS: Final = pa.timestamp("ns", "UTC")
_MICROSECONDS: Final = pa.timestamp("us", "UTC")

PLACE_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("core", pa.int32(), nullable=False),
    pa.field("segment_seq", pa.int64(), nullable=False),
    pa.field("bundle_index", pa.int32(), nullable=False),
    pa.field("part", pa.int32(), nullable=False),
]
"""The columns in front of each table: ids are unique where all of these, and the day, are equal."""


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch with plain columns; raises InputError if one cannot be read."""
    fields, columns = [], []
    schema: Any = batch.schema
    for field, column in zip(schema, batch.columns, strict=True):
        kind = _plain(field.type)
        try:
            columns.append(convert(column, kind, _HOW))
        except CAST_FAULTS as error:
            raise InputError(f"column {field.name!r} cannot be read: {error}") from error
        # What one bundle has in each row may be missing in the next: any column may be null.
        fields.append(pa.field(field.name, kind))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Put times in nanoseconds as microseconds, and the rest of 0 to 999 beside, as ``..._rest``.

    Raises InputError if there is a column of that name.
    """
    fields: list[Any] = []
    columns: list[Any] = []
    schema: Any = batch.schema
    for field, column in zip(schema, batch.columns, strict=True):
        if field.type != _NANOSECONDS:
            fields.append(field)
            columns.append(column)
            continue
        whole: Any = column
        numbers = whole.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        none = whole.is_null().to_numpy(zero_copy_only=False)
        micros, rest = np.divmod(numbers, _NS_IN_US)
        for name, values, kind in (
            (field.name, micros, _MICROSECONDS),
            (f"{field.name}_rest", rest, pa.int16()),
        ):
            wide = pa.array(values, pa.int64(), mask=none)
            fields.append(pa.field(name, kind))
            columns.append(wide.cast(kind))
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise InputError("two columns of a table would have one name")
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def try_schema(schema: pa.Schema) -> None:
    """Write and read a file without rows; raises InputError if there can be none."""
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    try:
        parquet.write_table(schema.empty_table(), sink)
        parquet.read_table(pa.BufferReader(sink.getvalue()))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"Parquet cannot hold it: {error}") from error


def with_place(batch: pa.RecordBatch, place: Place, part: int) -> pa.RecordBatch:
    """Put in front where a batch stands; raises InputError if a column is called so already."""
    taken = {field.name for field in PLACE_FIELDS} & set(batch.schema.names)
    if taken:
        raise InputError(f"column {min(taken)!r} is the table's own")
    values = (place.core, place.segment_seq, place.bundle_index, part)
    columns = [
        pa.repeat(pa.scalar(value, field.type), batch.num_rows)
        for value, field in zip(values, PLACE_FIELDS, strict=True)
    ]
    schema: Any = batch.schema
    return pa.RecordBatch.from_arrays(
        [*columns, *batch.columns], schema=pa.schema([*PLACE_FIELDS, *schema])
    )


def _plain(kind: Any) -> Any:  # noqa: ANN401
    while isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        kind = kind.value_type
    if kinds.is_timestamp(kind) and kind.tz != "UTC":
        return pa.timestamp(kind.unit, "UTC")
    if any(belongs(kind) for belongs in _KEPT):
        # A child that each value has is null where the next bundle has no value at all.
        free = not kinds.is_map(kind)
        return change_children(
            kind, lambda f: pa.field(f.name, _plain(f.type), nullable=free or f.nullable)
        )
    return kind
