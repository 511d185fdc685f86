"""From the rows of a table to commands: keys hashed, deletions told from values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts import conform
from quiver.errors import InputError
from quiver.schemas import same_type
from quiver.upsert.rows.columns import Array, whole
from quiver.upsert.rows.commands import Commands
from quiver.upsert.rows.definition import Definition
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.plan import Plan, define, plain_schema

__all__ = ["prepare"]


def prepare(
    table: pa.Table | pa.RecordBatch, plan: Plan, definition: Definition | None = None
) -> Commands:
    """Read commands from the rows of a table, under the types of a collection.

    Without a definition the types are the table's own. A key of which a column is null becomes an
    error, or with no value the end of that error. Raises InputError if a column is not there, or
    does not fit the definition.
    """
    wanted = define(table.schema, plan, 1) if definition is None else definition
    plan.check(table.schema)
    rows = table.num_rows
    key_columns = _columns(table, list(plan.key), wanted.key)
    names = plan.values(table.schema)
    for name in names:
        if wanted.value.get_field_index(name) < 0:
            raise InputError(f"column {name!r} is not in the value of the collection")
    value_columns = _columns(table, names, wanted.value)
    keys = _struct(key_columns, wanted.key, rows)
    hashes = key_hashes(key_bytes(keys))
    gone = _gone(table, plan, dict(zip(wanted.value.names, value_columns, strict=True)))
    errors = _null_keys(dict(zip(wanted.key.names, key_columns, strict=True)), gone, rows)
    absent = pc.or_(gone, errors.is_valid()) if errors.null_count < rows else gone
    values = _struct(value_columns, wanted.value, rows, mask=absent)
    order = _columns(table, list(plan.order_by), None)
    fields = [pa.field(n, a.type) for n, a in zip(plan.order_by, order, strict=True)]
    ordered = _struct(order, pa.schema(fields), rows) if order else None
    return Commands(hashes, keys, values, errors, ordered)


def _columns(table: Any, names: list[str], wanted: pa.Schema | None) -> list[Array]:  # noqa: ANN401
    """Give columns in one piece each, under the types that are wanted of them."""
    arrays = [whole(table, name) for name in names]
    have = pa.schema([pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)])
    schema = plain_schema(have) if wanted is None else wanted
    same = have.names == schema.names and all(map(same_type, have.types, schema.types))
    if same:
        return arrays
    batch = pa.RecordBatch.from_arrays(arrays, schema=have) if arrays else None
    if batch is None:
        return [pa.nulls(table.num_rows, field.type) for field in schema]
    return list(conform(batch, schema).columns)


def _struct(
    arrays: list[Array], schema: pa.Schema, rows: int, *, mask: Array = None
) -> pa.StructArray:
    """Make one column of many, null where the mask is true."""
    given = mask if mask is not None and mask.true_count else None
    if arrays:
        return pa.StructArray.from_arrays(arrays, fields=list(schema), mask=given)
    there: Any = None if given is None else pc.invert(given)
    valid = None if given is None else there.buffers()[1]
    empty: Any = pa.Array.from_buffers(pa.struct([]), rows, [valid])  # Columns tell no length.
    return empty


def _gone(table: Any, plan: Plan, values: dict[str, Array]) -> Array:  # noqa: ANN401
    """Tell which commands take their key away."""
    if plan.delete_when is not None:
        return pc.fill_null(whole(table, plan.delete_when), False)
    nulls = [array.is_null() for name, array in values.items() if name not in plan.order_by]
    if not nulls:
        return pa.array(np.zeros(table.num_rows, np.bool_))
    gone = nulls[0]
    for other in nulls[1:]:
        gone = pc.and_(gone, other)
    return gone


def _null_keys(keys: dict[str, Array], gone: Array, rows: int) -> pa.StringArray:
    """Say of each key that has a null in which column, the first one."""
    errors: Any = pa.nulls(rows, pa.string())
    for name, array in reversed(keys.items()):
        if array.null_count:
            bad = pc.and_not(array.is_null(), gone)
            errors = pc.if_else(bad, f"key is null in column {name}", errors)
    return errors
