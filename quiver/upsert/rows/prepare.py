"""From the rows of a table to commands: keys hashed, deletions told from values."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts.nested import decode
from quiver.upsert.rows.columns import Array, Mask, is_true, valid, whole
from quiver.upsert.rows.commands import Commands
from quiver.upsert.rows.definition import Definition
from quiver.upsert.rows.fitting import fit, fit_rows, struct_of
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes
from quiver.upsert.rows.plan import Plan, define, plain_schema

__all__ = ["Misfit", "prepare"]

Misfit: TypeAlias = Literal["fail", "error"]


def prepare(
    table: pa.Table | pa.RecordBatch,
    plan: Plan,
    definition: Definition | None = None,
    *,
    misfit: Misfit = "fail",
) -> Commands:
    """Read commands from the rows of a table, under the types of a collection.

    Without a definition the types are the table's own. A key of which a column is null becomes an
    error, or with no value the end of that error. A value that the definition does not hold raises
    InputError, or with ``misfit`` "error" becomes an error too; ``persist.widen`` gives one that
    holds it. Raises InputError if a column is not there, or a key has another type.
    """
    plan.check(table.schema)
    wanted = define(table.schema, plan, 1) if definition is None else definition
    rows = table.num_rows
    names = plan.values(table.schema)
    key_columns = fit([whole(table, name) for name in plan.key], plan.key, wanted.key, rows=rows)
    given = [whole(table, name) for name in names]
    gone = _gone(table, plan, dict(zip(names, given, strict=True)))
    if misfit == "error":
        value_columns, errors = fit_rows(given, names, wanted.value, rows=rows)
    else:
        value_columns, errors = fit(given, names, wanted.value, rows=rows), _no_text(rows)
    errors = _with_null_keys(errors, key_columns, wanted.key)
    if errors.null_count < rows:
        errors = pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), errors)
    mask = pa.array(gone | valid(errors))
    keys = struct_of(key_columns, wanted.key, rows)
    values = struct_of(value_columns, wanted.value, rows, mask=mask)
    return Commands(key_hashes(key_bytes(keys)), keys, values, errors, _order(table, plan))


def _gone(table: Any, plan: Plan, values: dict[str, Array]) -> Mask:  # noqa: ANN401
    """Tell which commands take their key away."""
    if plan.delete_when is not None:
        return is_true(decode(whole(table, plan.delete_when)))
    told = [decode(array) for name, array in values.items() if name not in plan.order_by]
    if not told:
        return np.zeros(table.num_rows, np.bool_)
    gone = np.ones(table.num_rows, np.bool_)
    for array in told:
        gone &= ~valid(array)
    return gone


def _with_null_keys(errors: Array, columns: list[Array], schema: pa.Schema) -> Array:
    """Say of each key that has a null in which column, the first one, before all else."""
    for name, array in reversed(list(zip(schema.names, columns, strict=True))):
        bad = ~valid(array)
        if bad.any():
            errors = pc.if_else(pa.array(bad), f"key is null in column {name}", errors)
    return errors


def _order(table: Any, plan: Plan) -> pa.StructArray | None:  # noqa: ANN401
    """Give the columns that order commands for one key."""
    if not plan.order_by:
        return None
    columns = [whole(table, name) for name in plan.order_by]
    fields = [pa.field(n, a.type) for n, a in zip(plan.order_by, columns, strict=True)]
    schema = plain_schema(pa.schema(fields))
    return struct_of(fit(columns, plan.order_by, schema), schema, table.num_rows)


def _no_text(rows: int) -> Array:
    return pa.nulls(rows, pa.string())
