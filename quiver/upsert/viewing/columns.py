"""Which columns a view has, and rows of a collection as those.

A row of a collection is a key and a value, one struct each. ``flat`` gives the columns of the key
and then those of the value; ``structs`` gives the two as they are. What we add has names of its
own, behind them. Two columns of one name are an error, whichever they are: which of them is left
out is for the user to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.upsert.rows import DIFF, ERROR, KEY, TIME, VALUE, Definition

__all__ = ["ADDED", "Columns", "Errors", "Layout"]

Errors: TypeAlias = Literal["fail", "skip", "only"]
Layout: TypeAlias = Literal["flat", "structs"]

_ERROR: Final = pa.field("_error", pa.string())
_TIME: Final = pa.field("_time", pa.int64())
_DIFF: Final = pa.field("_diff", pa.int64())
ADDED: Final = {_ERROR.name: ERROR, _TIME.name: TIME, _DIFF.name: DIFF}
"""Our columns by the names that a view gives them."""
_OTHERWISE: Final = "read it with layout=structs, where key and value are columns of their own"


@dataclass(frozen=True)
class Columns:
    """The columns of one view, in the collection's own types."""

    definition: Definition
    errors: Errors = "fail"
    layout: Layout = "flat"
    with_changes: bool = False
    chosen: tuple[str, ...] = ()
    """The only ones, in this order; empty for all."""

    @property
    def schema(self) -> pa.Schema:
        """The schema, all nullable. Raises InputError for a name that is there twice or nowhere."""
        found = [field.with_nullable(nullable=True) for _, field in self._all()]
        if self.chosen:
            found = self._only_chosen(found)
        for name, count in Counter(field.name for field in found).items():
            if count > 1:
                hint = "name it once" if self.chosen.count(name) > 1 else _OTHERWISE
                raise InputError(self._twice(name), hint=hint)
        return pa.schema(found)

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Give rows of a collection as ``schema``, some of the columns of this one."""
        return pa.RecordBatch.from_arrays(
            [self._column(batch, name) for name in schema.names], schema=schema
        )

    def _all(self) -> list[tuple[str, Any]]:
        """Give all columns, each with the column of the collection that it is in."""
        key, value = self.definition.key, self.definition.value
        found: list[tuple[str, Any]] = []
        if self.layout == "structs":
            found += [(KEY, pa.field(KEY, pa.struct(list(key))))]
        else:
            found += [(KEY, field) for field in key]
        if self.errors == "only":
            found += [(ERROR, _ERROR)]
        elif self.layout == "structs":
            found += [(VALUE, pa.field(VALUE, pa.struct(list(value))))]
        else:
            found += [(VALUE, field) for field in value]
        return found + ([(TIME, _TIME), (DIFF, _DIFF)] if self.with_changes else [])

    def _only_chosen(self, found: list[Any]) -> list[Any]:
        kept = []
        for name in self.chosen:
            named = [field for field in found if field.name == name]
            if not named:
                raise InputError(
                    f"columns: the collection has no column {name!r}",
                    hint=f"its columns are: {', '.join(field.name for field in found)}",
                )
            kept += named
        return kept

    def _twice(self, name: str) -> str:
        if name in ADDED:
            return f"column {name!r} would be there twice: a view adds one of that name"
        if self.chosen.count(name) > 1:
            return f"columns: {name!r} is there twice"
        return f"column {name!r} is there twice: in the key, and in the value"

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:  # noqa: ANN401
        (source, field), *_ = [one for one in self._all() if one[1].name == name]
        array: Any = batch.column(source)
        if source in (KEY, VALUE):
            if self.layout == "structs":
                return array
            # What lies below a null is null, which a child alone does not know.
            return pc.struct_field(array, [array.type.get_field_index(name)])
        return array.cast(field.type)
