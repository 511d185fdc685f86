"""Hypothesis strategies for schemas, batches and bundles: every type that Arrow can keep.

Compare what was drawn with ``quiver.testing.same``: NaN is not equal to itself elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from quiver.testing.drawn_types import metadata, names, types
from quiver.testing.drawn_values import arrays

__all__ = ["arrays", "batches", "bundles", "record_batches", "schemas", "types"]


@st.composite
def schemas(draw: st.DrawFn, *, columns_max: int = 4, depth: int = 2) -> pa.Schema:
    """Draw a schema: now and then a name twice, columns not nullable, and metadata."""
    fields = []
    for _ in range(draw(st.integers(0, columns_max))):
        kind = draw(types(depth=depth))
        nullable = pa.types.is_null(kind) or draw(st.booleans())
        fields.append(pa.field(draw(names()), kind, nullable=nullable, metadata=draw(metadata())))
    return pa.schema(fields, metadata=draw(metadata()))


@st.composite
def batches(draw: st.DrawFn, schema: pa.Schema, *, rows_max: int = 6) -> pa.RecordBatch:
    """Draw a batch of this schema, often empty or a slice, with nulls where they are allowed."""
    rows = draw(st.integers(0, rows_max))
    before, after = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (2, 1)]))
    count = before + rows + after
    if not len(schema):
        whole = pa.record_batch({"n": pa.nulls(count)}).select([])
        given: Any = schema.metadata
        return whole.replace_schema_metadata(given).slice(before, rows)
    columns = [draw(arrays(field.type, count, nullable=field.nullable)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema).slice(before, rows)


@st.composite
def record_batches(
    draw: st.DrawFn, *, columns_max: int = 4, rows_max: int = 6, depth: int = 2
) -> pa.RecordBatch:
    """Draw a schema and a batch of it."""
    schema = draw(schemas(columns_max=columns_max, depth=depth))
    return draw(batches(schema, rows_max=rows_max))


@st.composite
def bundles(
    draw: st.DrawFn, slots: Sequence[str], *, rows_max: int = 6
) -> dict[str, pa.RecordBatch]:
    """Draw a bundle: at least one of the slots, each with a batch of a schema of its own."""
    present = draw(st.lists(st.sampled_from(slots), unique=True, min_size=1))
    return {slot: draw(record_batches(rows_max=rows_max)) for slot in present}
