"""Which columns an expression of pyarrow reads, found without touching any row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

__all__ = ["columns_of"]


def columns_of(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Find the columns of ``schema`` that an expression needs, in the order of the schema.

    pyarrow does not tell, but it says whether an expression fits a schema. So columns are taken
    away one by one for as long as it does; only those whose names stand in the expression's text
    are tried. Where that is not certain, as with columns given by number, all are named. Raises
    what pyarrow raises if the expression does not fit ``schema`` at all.
    """
    _bind(expression, schema)
    text = str(expression)
    everything = list(dict.fromkeys(schema.names))
    if "FieldPath" in text:
        return everything
    needed = [name for name in everything if name in text]
    if not _fits(expression, schema, needed):
        return everything
    for name in list(needed):
        rest = [other for other in needed if other != name]
        if _fits(expression, schema, rest):
            needed = rest
    return needed


def _fits(expression: pc.Expression, schema: pa.Schema, names: Iterable[str]) -> bool:
    kept = set(names)
    try:
        _bind(expression, pa.schema([field for field in schema if field.name in kept]))
    except pa.ArrowInvalid:
        return False
    return True


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    """Let pyarrow look whether an expression fits a schema: a projection is bound at once."""
    nothing: Iterator[pa.RecordBatch] = iter(())
    pads.Scanner.from_batches(nothing, schema=schema, columns={"x": expression})
