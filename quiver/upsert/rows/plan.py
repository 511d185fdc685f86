"""Which columns of a table say what: the key, the value, the order, whether it is a deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.nested import repeated_child
from quiver.errors import InputError
from quiver.ipc import child_types
from quiver.schemas import change_children
from quiver.upsert.rows.definition import Definition

__all__ = ["Plan", "define", "plain_schema"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read commands from the rows of a table.

    ``value`` None stands for all columns that are not named elsewhere in the plan. Of two commands
    for one key the one with the greater ``order_by`` wins, column by column, null being least;
    without, the later one. ``delete_when`` is a column of booleans, true where the key is to go;
    without, the key goes where every column of the value is null, those of ``order_by`` aside.
    """

    key: Sequence[str]
    value: Sequence[str] | None = None
    order_by: Sequence[str] = ()
    delete_when: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.key:
            raise InputError("a plan of upserts names no key", hint="key=['id'], for instance")
        for names in (self.key, self.value or (), self.order_by):
            if isinstance(names, str):
                raise InputError(f"columns come as a list, not as the text {names!r}")
            repeated = next((name for name in names if list(names).count(name) > 1), None)
            if repeated is not None:
                raise InputError(f"column {repeated!r} is named twice")

    def values(self, schema: pa.Schema) -> list[str]:
        """Give the names of the columns of the value."""
        if self.value is not None:
            return list(self.value)
        named = {*self.key, *self.order_by, self.delete_when}
        return [name for name in schema.names if name not in named]

    def check(self, schema: pa.Schema) -> None:
        """Raise InputError if a schema lacks a column of the plan or has one twice."""
        known = list(schema.names)
        wanted = [*self.key, *self.values(schema), *self.order_by]
        for name in [*wanted, *([self.delete_when] if self.delete_when is not None else [])]:
            if (times := known.count(name)) != 1:
                what = "is not there" if not times else "is there more than once"
                raise InputError(f"column {name!r} {what}", hint=f"there are {', '.join(known)}")
        if self.delete_when is not None and not kinds.is_boolean(
            kind := schema.field(self.delete_when).type
        ):
            raise InputError(f"column {self.delete_when!r} is {kind} and not bool")


def define(schema: pa.Schema, plan: Plan, buckets: int) -> Definition:
    """Give the definition of a collection of what a plan reads from tables of a schema."""
    plan.check(schema)
    key = plain_schema(pa.schema([schema.field(name) for name in plan.key]))
    value = plain_schema(pa.schema([schema.field(name) for name in plan.values(schema)]))
    return Definition(key, value, buckets)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Give the types under which rows are kept: no dictionaries, runs or views; all may be null.

    Raises InputError for types of which there can be no rows here: unions, structs that name a
    child twice.
    """
    for field in schema:
        _refuse(field)
    return pa.schema([_plain(field).with_nullable(True) for field in schema])


def _refuse(field: Any) -> None:  # noqa: ANN401
    """Raise InputError for types that Arrow itself cannot take rows of, or name a child of."""
    todo = [field.type]
    while todo:
        kind = todo.pop()
        if kinds.is_union(kind):
            raise InputError(f"column {field.name!r} holds a union, which no collection does")
        todo += child_types(kind)
    if (name := repeated_child(field.type)) is not None:
        raise InputError(f"column {field.name!r} has {name!r} twice in one struct")


def _plain(field: Any) -> Any:  # noqa: ANN401
    # Not a new field: pyarrow makes none of the null type that is not nullable, but reads it.
    return field.with_type(_plain_type(field.type)).remove_metadata()


def _plain_type(kind: Any) -> Any:  # noqa: ANN401
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        value = kind.value_type  # Arrow loses the names of extension types inside of these.
        return _plain_type(getattr(value, "storage_type", value))
    if isinstance(kind, pa.BaseExtensionType):
        storage = _plain_type(kind.storage_type)
        return kind if storage == kind.storage_type else storage
    if kinds.is_string_view(kind):
        return pa.large_string()
    if kinds.is_binary_view(kind):
        return pa.large_binary()
    if kinds.is_list_view(kind):
        return pa.list_(_plain(kind.value_field))
    if kinds.is_large_list_view(kind):
        return pa.large_list(_plain(kind.value_field))
    return change_children(kind, _plain)
