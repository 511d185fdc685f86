"""Which rows a rule is about: names, severities and attributes, each looked at as a whole column.

A value of a dictionary is looked at once, however many rows have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.otel.pipeline.processors.tables import (
    Mask,
    Tables,
    column_of,
    flat,
    ids_of,
    parents_of,
)
from quiver.otel.pipeline.rules import Condition, Rule, Value
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["KINDS", "attribute_rows", "equal_to", "item_rows", "kind_of", "root_rows"]

_NAMES: Final = {Signal.LOGS: "event_name", Signal.TRACES: "name", Signal.METRICS: "name"}

KINDS: Final[dict[type, tuple[int, str, Value, pa.DataType]]] = {
    str: (1, "str", "", pa.utf8()),
    int: (2, "int", 0, pa.int64()),
    float: (3, "double", 0.0, pa.float64()),
    bool: (4, "bool", False, pa.bool_()),
}
"""By the type of a value: the number of its kind, its column, what is left out there, its type."""

_Test: TypeAlias = Callable[[Any], Any]


def kind_of(value: Value) -> tuple[int, str, Value, pa.DataType]:
    """Give how a value is kept."""
    return KINDS[type(value)]


def root_rows(rule: Rule, tables: Tables, signal: Signal) -> Mask:
    """Find the rows of the root that meet all of a rule but what it says of items' attributes."""
    root = tables[ROOT_SLOTS[signal]]
    found = np.ones(root.num_rows, np.bool_)
    if rule.name is not None:
        found &= _names(rule, root, _NAMES[signal])
    if rule.severity_from is not None or rule.severity_below is not None:
        found &= _severities(rule, root)
    for condition in rule.conditions:
        if condition.place != "item":
            slot, ids = f"{condition.place}_attrs", ids_of(root, condition.place, "id")
            found &= _having(condition, tables.get(slot), ids)
    return found


def item_rows(rule: Rule, tables: Tables, slot: str, *, attrs: str) -> Mask:
    """Find the rows of items that meet all that a rule says of their own attributes."""
    ids = ids_of(tables[slot], "id")
    found = np.ones(len(ids), np.bool_)
    for condition in rule.conditions:
        if condition.place == "item":
            found &= _having(condition, tables.get(attrs), ids)
    return found


def _having(condition: Condition, attributes: pa.RecordBatch | None, ids: Any) -> Mask:  # noqa: ANN401
    if attributes is None:
        return np.zeros(len(ids), np.bool_)
    rows = attribute_rows(condition, attributes)
    found: Mask = np.isin(ids, parents_of(attributes)[rows])
    return found


def attribute_rows(condition: Condition, attributes: pa.RecordBatch) -> Mask:
    """Find the attributes that are what a condition says."""
    number, name, nothing, kind = kind_of(condition.value)
    found = _met(column_of(attributes, "key"), equal_to(condition.key), attributes.num_rows)
    kinds = column_of(attributes, "type")
    found &= _met(
        kinds, lambda column: pc.equal(column, pa.scalar(number, column.type)), len(found)
    )
    if not found.any():
        return found
    wanted: _Test = equal_to(condition.value)
    if condition.is_pattern:
        pattern = str(condition.value)
        wanted = lambda column: pc.match_substring_regex(column, pattern)  # noqa: E731
    column: Any = column_of(attributes, name)
    if column is None:  # Where every value is the one that is left out.
        column = pa.array([None] * attributes.num_rows, kind)
    values = _met(column, wanted, len(found))
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    if nulls.any():
        left_out = bool(wanted(pa.array([nothing], kind))[0].as_py())
        values = np.where(nulls, left_out, values)
    return found & values


def equal_to(value: Value) -> _Test:
    """Make the test whether a value is this one."""
    return lambda column: pc.equal(column, pa.scalar(value, column.type))


def _names(rule: Rule, root: pa.RecordBatch, column: str) -> Mask:
    name = rule.name or ""
    test = equal_to(name)
    if rule.is_name_pattern:
        test = lambda column: pc.match_substring_regex(column, name)  # noqa: E731
    return _met(column_of(root, column), test, root.num_rows)


def _severities(rule: Rule, root: pa.RecordBatch) -> Mask:
    """Compare severities; an item that has none meets no rule about them."""
    column = column_of(root, "severity_number")
    if column is None:
        return np.zeros(root.num_rows, np.bool_)
    values = flat(column).fill_null(0).to_numpy(zero_copy_only=False)
    found = values > 0
    if rule.severity_from is not None:
        found &= values >= rule.severity_from
    if rule.severity_below is not None:
        found &= values < rule.severity_below
    return np.asarray(found, np.bool_)


def _met(column: Any, test: _Test, length: int) -> Mask:  # noqa: ANN401
    """Find the rows of a column that meet a test; a null meets none."""
    if column is None:
        return np.zeros(length, np.bool_)
    if pa.types.is_dictionary(column.type):
        result = test(column.dictionary).fill_null(False)
        result = result.take(column.indices)
    else:
        result = test(column)
    found: Mask = result.fill_null(False).to_numpy(zero_copy_only=False)
    return found.copy()
