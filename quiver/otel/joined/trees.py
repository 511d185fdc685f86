"""Where each span stands in the tree of its trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.otel.joined.shared import schema

__all__ = ["PLACES", "places_in_trees"]

PLACES: Final = schema(
    {
        "trace_id": pa.utf8(),
        "span_id": pa.utf8(),
        "depth": pa.int32(),
        "path": pa.list_(pa.utf8()),
        "root_span_id": pa.utf8(),
    }
)
_ROWS: Final = 65_536


def places_in_trees(batches: Iterable[pa.RecordBatch], depth_max: int) -> Iterator[pa.RecordBatch]:
    """Give the place of each span of whole traces; those in circles, or too deep, have none.

    ``batches`` have ``trace_id``, ``span_id``, ``parent_span_id`` and ``name``, no span twice.
    """
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return
    table: Any = pa.Table.from_batches(found).combine_chunks()
    own = _keys(table, "span_id")
    parents = pc.index_in(_keys(table, "parent_span_id"), value_set=own, skip_nulls=True)
    above = parents.fill_null(-1).to_numpy().astype(np.int64)
    names, spans = table.column("name").to_pylist(), table.column("span_id").to_pylist()
    depth = np.where(above < 0, 0, -1)
    root = np.where(above < 0, np.arange(len(above)), -1)
    paths: list[list[str] | None] = [
        [name] if up < 0 else None for name, up in zip(names, above, strict=True)
    ]
    level = depth == 0
    for deep in range(1, depth_max + 1):
        level = (depth < 0) & level[above]
        rows = np.flatnonzero(level)
        if not rows.size:
            break
        depth[rows], root[rows] = deep, root[above[rows]]
        for row in rows.tolist():
            paths[row] = [*(paths[above[row]] or ()), names[row]]
    lost = depth < 0
    columns = [
        table.column("trace_id"),
        table.column("span_id"),
        pa.array(depth.astype(np.int32), mask=lost),
        pa.array(paths, PLACES.field("path").type),
        pa.array([None if at < 0 else spans[at] for at in root.tolist()], pa.utf8()),
    ]
    yield from pa.table(columns, schema=PLACES).to_batches(max_chunksize=_ROWS)


def _keys(table: Any, name: str) -> Any:  # noqa: ANN401 - pyarrow's stubs
    """Give what tells a span from all others; null if one of both is."""
    key: Any = pc.binary_join_element_wise(table.column("trace_id"), table.column(name), "-")
    return key.combine_chunks()
