"""Which columns an expression of pyarrow reads, found without touching any row.

``mentioned`` is for who does not know the schema yet, ``columns_of`` for who does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

__all__ = ["columns_of", "mentioned", "text_of"]

_NUMBERED: Final = "FieldPath("
"""How the text of an expression shows a column by its number."""


def text_of(expression: pc.Expression) -> str | None:
    """Give an expression as text; None if it has none: Arrow cuts long values within a character.

    Who decides by the text takes everything for possible then.
    """
    try:
        return str(expression)
    except UnicodeDecodeError:
        return None


def mentioned(expression: pc.Expression, names: Iterable[str]) -> list[str]:
    """List the columns that an expression may use, each once; perhaps some that it does not.

    It takes no schema: only those whose names stand in the expression's text can be among them, or
    all, if it has a column by its number.
    """
    text = text_of(expression)
    if text is None or _NUMBERED in text:
        return list(dict.fromkeys(names))
    return [name for name in dict.fromkeys(names) if name in text]


def columns_of(expression: pc.Expression, schema: pa.Schema) -> list[str]:
    """Find the columns of ``schema`` that an expression needs, in the order of the schema.

    pyarrow does not tell, but it says whether an expression fits a schema. So columns that may be
    used are taken away one by one for as long as it does. Where that is not certain all are named.
    Raises what pyarrow raises if the expression does not fit ``schema`` at all.
    """
    _bind(expression, schema)
    needed = mentioned(expression, schema.names)
    is_numbered = _NUMBERED in (text_of(expression) or "")
    if is_numbered or not _fits(expression, schema, needed):
        return list(dict.fromkeys(schema.names))
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
