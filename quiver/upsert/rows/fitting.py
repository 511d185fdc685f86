"""Columns under the types of a collection: exactly, or not at all, or row by row an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts import conform
from quiver.casts.nested import decode
from quiver.casts.nulls import nulls
from quiver.casts.picking import rows_at
from quiver.errors import InputError
from quiver.promote import common_type, is_void
from quiver.schemas import same_type
from quiver.upsert.rows.columns import Array, Mask, valid

__all__ = ["fit", "fit_rows", "struct_of"]


_EXACT_IN_FLOAT: Final = 1 << 53


def fit(
    arrays: list[Array],
    names: Sequence[str],
    schema: pa.Schema,
    *,
    rows: int = 0,
) -> list[Array]:
    """Give columns in the order and under the types of a schema; one that is missing is null."""
    have = pa.schema([pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)])
    for name in have.names:
        if schema.get_field_index(name) < 0:
            raise InputError(f"column {name!r} is not in the collection", hint="widen it first")
    if have.names == schema.names and all(map(same_type, have.types, schema.types)):
        return list(arrays)
    if not arrays:
        return [nulls(rows, field.type) for field in schema]
    plain = [decode(a) if is_void(a.type) else a for a in arrays]
    return list(conform(pa.RecordBatch.from_arrays(plain, names=have.names), schema).columns)


def fit_rows(
    arrays: list[Array],
    names: Sequence[str],
    schema: pa.Schema,
    *,
    rows: int,
) -> tuple[list[Array], Array]:
    """Do the same, but say of each row that does not fit why, null of the others."""
    told: Any = pa.nulls(rows, pa.string())
    fitting: dict[str, Array] = {}
    for name, array in zip(names, arrays, strict=True):
        index = schema.get_field_index(name)
        if index < 0:
            bad, why = valid(array), f"column {name!r} is not in the collection"
        else:
            bad, why = _misfits(array, schema.field(index))
            kept = _without(array, bad) if bad.any() else array
            if _fits(kept, schema.field(index)):
                fitting[name] = kept
        told = pc.if_else(pc.and_(pa.array(bad), told.is_null()), why, told)
    return fit(list(fitting.values()), list(fitting), schema, rows=rows), told


def _misfits(array: Array, field: Any) -> tuple[Mask, str]:  # noqa: ANN401
    """Tell which rows of a column do not fit, and why."""
    if _fits(array, field):
        return np.zeros(len(array), np.bool_), ""
    joined = common_type(field.type, array.type)
    if joined is None or not same_type(joined, field.type):
        why = f"column {field.name!r} is {array.type}, which {field.type} does not hold"
        return valid(array), why
    why = f"column {field.name!r}: a value of {array.type} cannot become {field.type} exactly"
    if kinds.is_integer(array.type) and kinds.is_floating(field.type):
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        bad = (values > _EXACT_IN_FLOAT) | (values < -_EXACT_IN_FLOAT)
        if _fits(_without(array, bad), field):
            return bad, why
    bad = np.zeros(len(array), np.bool_)
    todo = [(0, len(array))]
    while todo:
        start, stop = todo.pop()
        if _fits(array.slice(start, stop - start), field):
            continue
        if stop - start == 1:
            bad[start] = True
        else:
            middle = (start + stop) // 2
            todo += [(start, middle), (middle, stop)]
    return bad, why


def _fits(array: Array, field: Any) -> bool:  # noqa: ANN401
    try:
        fit([array], [field.name], pa.schema([field]))
    except InputError:
        return False
    return True


def _without(array: Array, bad: Mask) -> Array:
    """Give an array with null where it is bad."""
    return rows_at(array, pa.array(np.arange(len(array)), mask=bad))


def struct_of(
    arrays: list[Array], schema: pa.Schema, rows: int, *, mask: Array = None
) -> pa.StructArray:
    """Make one column of many, null where the mask is true."""
    given = mask if mask is not None and mask.true_count else None
    if arrays:
        return pa.StructArray.from_arrays(arrays, fields=list(schema), mask=given)
    there: Any = None if given is None else pc.invert(given)
    bits = None if given is None else there.buffers()[1]
    empty: Any = pa.Array.from_buffers(pa.struct([]), rows, [bits])  # Columns tell no length.
    return empty
