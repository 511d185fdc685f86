"""Cast a batch to the representative schema of its slot: exactly, or not at all.

Only casts to a wider type of the lattice in ``quiver.promote`` are done. Where types are equal no
byte is copied.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.nested import Array, Conversion, DataType, convert
from quiver.casts.nulls import nulls
from quiver.errors import InputError
from quiver.promote import common_type
from quiver.schemas import same_schema, same_type

__all__ = ["CAST_FAULTS", "conform", "conform_table"]

CAST_FAULTS: Final = (pa.ArrowException, OverflowError)
"""What pyarrow raises when a value does not fit its new type, or when it knows no such cast."""


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give the rows of ``batch`` under ``schema``: its columns, in its order, of its types.

    A column that the batch lacks is null; one that the schema lacks is left out. Raises InputError
    that names the column if its type is no narrower form of the wanted one, if a value cannot be
    kept exactly, or if a column that must not be null is.
    """
    if same_schema(batch.schema, schema):
        return batch
    if not len(schema):
        return batch.select([])
    arrays = [_column(batch, field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def conform_table(data: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Do the same with a table, whose chunks stay apart, or with a batch, which becomes one."""
    if isinstance(data, pa.Table) and same_schema(data.schema, schema):
        return data
    batches = data.to_batches() if isinstance(data, pa.Table) else [data]
    return pa.Table.from_batches([conform(batch, schema) for batch in batches], schema)


def _column(batch: pa.RecordBatch, field: DataType) -> Array:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        if field.name in batch.schema.names:
            raise InputError(f"column {field.name!r} appears twice in a batch")
        array = _missing(batch.num_rows, field)
    else:
        array = _widen(batch.column(index), field)
    if array.null_count and not field.nullable:
        raise InputError(f"column {field.name!r} has nulls where the schema allows none")
    return array


def _missing(rows: int, field: DataType) -> Array:
    try:
        return nulls(rows, field.type)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {field.name!r} is missing: {error}") from error


def _widen(array: Array, field: DataType) -> Array:
    if same_type(array.type, field.type):
        return array
    joined = common_type(field.type, array.type)
    if joined is None or not same_type(joined, field.type):
        raise InputError(f"column {field.name!r} is {array.type}, which {field.type} does not hold")
    try:
        wider = convert(array, field.type, _EXACT)
        wider.validate(full=True)  # What pyarrow put together wrongly would end the process later.
    except CAST_FAULTS as error:
        raise InputError(
            f"column {field.name!r}: {array.type} cannot become {field.type} exactly: {error}",
            hint="its types drifted apart; leave the column out, or read the segments one by one",
        ) from error
    return wider


def _cast_exactly(array: Array, kind: DataType) -> Array:
    wider = array.cast(kind)
    # Arrow checks that an integer survives as a float, but lets decimals be rounded.
    if kinds.is_decimal(array.type) and kinds.is_floating(kind):
        back = wider.cast(array.type)
        if not back.equals(array):
            raise pa.ArrowInvalid("a value has more digits than a float keeps")
    return wider


_EXACT: Final = Conversion(_cast_exactly)
