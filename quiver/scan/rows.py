"""Try a filter on rows: Arrow decides, in the thread that asks, and the order of rows stays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import acero

from quiver.casts.picking import has_stacked_lists
from quiver.errors import InputError
from quiver.scan.expressions import text_of

__all__ = ["check_fits", "mask_of", "passing"]

Expression: TypeAlias = Any


def passing(table: pa.Table, where: Expression) -> pa.Table:
    """Give the rows that pass a filter, under the same schema."""
    if has_stacked_lists(table.schema):
        return _pick(table, where)
    try:
        found = _run(table, "filter", acero.FilterNodeOptions(where))
    except pa.ArrowNotImplementedError:  # Arrow cannot pick rows of some types, views for instance.
        return _pick(table, where)
    return pa.Table.from_arrays(found.columns, schema=table.schema)


def mask_of(data: pa.Table | pa.RecordBatch, where: Expression) -> npt.NDArray[np.bool_]:
    """Say of each row whether it passes a filter."""
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    mask: Any = _run(table, "project", acero.ProjectNodeOptions([where], ["passes"])).column(0)
    found: npt.NDArray[np.bool_] = mask.fill_null(False).to_numpy()
    return found


def check_fits(where: Expression, schema: pa.Schema) -> None:
    """Raise InputError unless a filter can be tried on rows of this schema."""
    try:
        passing(schema.empty_table(), where)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(
            f"where: {text_of(where) or 'it'} does not fit the rows: {error}",
            hint=f"the columns that it may use are: {', '.join(schema.names)}",
        ) from error


def _pick(table: pa.Table, where: Expression) -> pa.Table:
    """Cut out each run of rows that pass: slices are views, whatever the type."""
    passes = mask_of(table, where).astype(np.int8)
    edges = np.flatnonzero(np.diff(passes, prepend=np.int8(0), append=np.int8(0)))
    runs = [table.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
    return pa.concat_tables(runs) if runs else table.slice(0, 0)


def _run(table: pa.Table, kind: str, options: Any) -> pa.Table:  # noqa: ANN401
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    plan = acero.Declaration.from_sequence([source, acero.Declaration(kind, options)])
    return plan.to_table(use_threads=False)
