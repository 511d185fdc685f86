"""Rows of bundles as commands of one collection, whatever their schemas became meanwhile.

The value of a collection grows wider with its rows: a column that is new, or of a wider type, is
taken in. Where no type holds what is there and what comes, those rows are errors, or the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from quiver.casts import conform_table
from quiver.casts.nulls import nulls
from quiver.errors import InputError
from quiver.promote import union_schema
from quiver.schemas import same_schema
from quiver.upsert.feeding.conditions import Condition, ask, parse_condition
from quiver.upsert.feeding.options import BUCKETS, FeedOptions
from quiver.upsert.persist import widen
from quiver.upsert.rows import Commands, Definition, Plan, plain_schema, prepare

__all__ = ["Shaped", "Shaper"]

_GONE: Final = "_gone"


@dataclass(frozen=True, slots=True)
class Shaped:
    """Commands, and the definition under which they are: that of the collection, or a wider one."""

    definition: Definition
    commands: Commands


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows of one schema, and the column that says which of them are deletions."""

    rows: pa.Table
    gone: str | None


class Shaper:
    """Reads commands out of tables, as one choice of columns has it."""

    def __init__(self, options: FeedOptions) -> None:
        """Read the condition; raises InputError for what makes no sense."""
        self._options = options
        when = options.delete_when
        self._condition: Condition | None = None
        if isinstance(when, str):
            self._condition = parse_condition(when)
        elif when is not None:
            self._condition = Condition(when)
        self._seen: dict[str, pa.DataType] = {}
        Plan(list(options.key), options.value, list(options.order_by))

    def shape(self, tables: Sequence[pa.Table], definition: Definition | None) -> Shaped | None:
        """Read commands, in the order of the tables; None if these have no rows.

        Raises InputError if a column is missing, or a key does not fit the collection.
        """
        alike = _alike(tables)
        if not alike:
            return None
        known = pa.schema([]) if definition is None else definition.value
        for schema in (known, *(some[0].schema for some in alike)):
            self._seen.update(zip(schema.names, schema.types, strict=True))
        groups = [self._group(some) for some in alike]
        wider = definition or self._first(groups)
        for group in groups:
            wider = self._widened(wider, group)
        orders = self._orders(groups)
        parts = [self._commands(group, wider, orders) for group in groups]
        return Shaped(wider, Commands.concat(parts))

    def check(self, schema: pa.Schema, definition: Definition | None) -> None:
        """Raise InputError unless rows that have all of these columns could be read."""
        known = pa.schema([]) if definition is None else definition.value
        self._group([schema.empty_table()], dict(zip(known.names, known.types, strict=True)))
        for name in self._options.value or ():
            if name not in schema.names and name not in known.names:
                raise _missing(name, schema.names)

    def _group(
        self, tables: list[pa.Table], seen: Mapping[str, pa.DataType] | None = None
    ) -> _Group:
        rows = pa.concat_tables(tables)
        names = rows.schema.names
        needed = (*self._options.key, *self._options.order_by)
        chosen = names if self._options.value is None else self._options.value
        asked = None if self._condition is None else self._condition.column
        for name in (*needed, *chosen, *([asked] if asked else [])):
            if names.count(name) > 1 or (name in needed and name not in names):
                what = "is there twice" if name in names else "is not there"
                raise InputError(f"column {name!r} {what}", hint=f"columns: {', '.join(names)}")
        if self._condition is None:
            return _Group(rows, None)
        if self._condition.column in names:
            return _Group(rows, self._condition.column)
        gone = _GONE
        while gone in names:
            gone = f"_{gone}"
        found = ask(_filled(rows, self._seen if seen is None else seen), self._condition.expression)
        return _Group(rows.append_column(gone, found), gone)

    def _first(self, groups: Iterable[_Group]) -> Definition:
        """Give the definition of a collection that begins with these rows."""
        keys = [plain_schema(_chosen(group.rows, self._options.key)) for group in groups]
        return Definition(union_schema(keys), pa.schema([]), self._options.buckets or BUCKETS)

    def _widened(self, definition: Definition, group: _Group) -> Definition:
        """Let a definition hold the values of some rows, or those columns of it that it can."""
        value = plain_schema(_chosen(group.rows, self._values(group)))
        try:
            return widen(definition, value)
        except InputError as error:
            if self._options.misfit == "fail":
                error.hint = "misfit=error makes error rows of such values"
                raise
        for field in value:
            with suppress(InputError):  # Of its rows ``prepare`` makes errors.
                definition = widen(definition, pa.schema([field]))
        return definition

    def _values(self, group: _Group) -> list[str]:
        """Name the columns of the value that rows have."""
        names = group.rows.schema.names
        if self._options.value is not None:
            return [name for name in self._options.value if name in names]
        others = {*self._options.key, *self._options.order_by, group.gone}
        return [name for name in names if name not in others]

    def _orders(self, groups: Sequence[_Group]) -> pa.Schema:
        """Give the columns by which commands are ordered, of types that hold those of all rows."""
        return union_schema(_chosen(group.rows, self._options.order_by) for group in groups)

    def _commands(self, group: _Group, definition: Definition, orders: pa.Schema) -> Commands:
        for name in self._options.value or ():
            if definition.value.get_field_index(name) < 0:
                raise _missing(name, group.rows.schema.names)
        keys, order = list(self._options.key), list(self._options.order_by)
        plan = Plan(keys, self._values(group), order, group.gone)
        rows = group.rows
        for field in orders:
            column = conform_table(rows.select([field.name]), pa.schema([field])).column(0)
            rows = rows.set_column(rows.schema.get_field_index(field.name), field, column)
        return prepare(rows, plan, definition, misfit=self._options.misfit)


def _missing(name: str, names: Iterable[str]) -> InputError:
    return InputError(f"column {name!r} is not there", hint=f"columns: {', '.join(names)}")


def _filled(rows: pa.Table, seen: Mapping[str, pa.DataType]) -> pa.Table:
    """Add columns that other rows had, or the collection has: here they are null."""
    for name, kind in seen.items():
        if name not in rows.schema.names:
            rows = rows.append_column(name, nulls(rows.num_rows, kind))
    return rows


def _alike(tables: Sequence[pa.Table]) -> list[list[pa.Table]]:
    """Give tables that follow each other and have one schema together; none without rows."""
    found: list[list[pa.Table]] = []
    for table in tables:
        if not table.num_rows:
            continue
        if found and same_schema(found[-1][-1].schema, table.schema):
            found[-1].append(table)
        else:
            found.append([table])
    return found


def _chosen(rows: pa.Table, names: Sequence[str]) -> pa.Schema:
    return pa.schema([rows.schema.field(name) for name in names])
