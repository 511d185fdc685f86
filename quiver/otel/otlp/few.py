"""A handful of attributes, read one by one: vectors take longer to begin than these to end."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.cbor import UNDEFINED, list_as_cbor, map_as_cbor
from quiver.otel.otlp.columns import words
from quiver.otel.otlp.values import BOOL, BYTES, CASES, DOUBLE, INT, LIST, MAP, STR, Values
from quiver.otel.wire import Ranges, Source, check_text, fields_of, span

__all__ = ["read_few"]

_KINDS: Final = {case.tag: case.kind for case in CASES}
_KEY, _VALUE = span(1), span(2)
_LONG: Final = 0x80

_Found = tuple[int, int, int]
"""A field: its tag, where its value starts, and the value, which of a range is its end."""


def read_few(source: Source, parts: Ranges, *, room: int) -> tuple[pa.Array[Any], Values] | None:
    """Give keys and values of these KeyValues; None if a field came twice, which nobody does.

    Raises InputError as those do that read many.
    """
    keys, kinds, values = list[bytes](), list[int](), list[Any]()
    there = np.ones(parts.size, np.bool_)
    for start, end in zip(parts.start.tolist(), parts.end.tolist(), strict=True):
        pair = _pair(source, start, end)
        found = _once(source, *pair[1]) if pair and pair[1] else None
        if pair is None or (pair[1] and found is None):
            return None
        keys.append(source.data[slice(*pair[0])])
        check_text(keys[-1], pair[0][0])
        there[len(kinds)] = found is not None
        kind, value = (0, UNDEFINED) if found is None else _value(source, found, room)
        kinds.append(kind)
        values.append(value)
    told = np.array(kinds, np.uint8)
    table = Values(told, there, _columns(told, values))
    return words(pa.array(keys, pa.binary()), parts.start, least=8), table


def _pair(
    source: Source, start: int, end: int
) -> tuple[tuple[int, int], tuple[int, int] | None] | None:
    """Give where the key of a KeyValue is, and its value if there is one."""
    data = source.data
    if start < end and data[start] == _KEY and data[start + 1] < _LONG:
        value = start + 2 + data[start + 1]
        size = data[value + 1] if value + 2 <= end and data[value] == _VALUE else _LONG
        if size < _LONG and value + 2 + size == end:
            return (start + 2, value), (value + 2, end)
    found: dict[int, tuple[int, int]] = {}
    for tag, at, stop in fields_of(source, start, end):
        if tag in {_KEY, _VALUE}:
            if tag in found:
                return None
            found[tag] = at, stop
    return found.get(_KEY, (0, 0)), found.get(_VALUE)


def _once(source: Source, start: int, end: int) -> _Found | None:
    """Give the only field of a value, one of tag 0 if it is empty; None if there are several."""
    data = source.data
    if start + 2 <= end and data[start] == span(STR):
        size = data[start + 1]
        if size < _LONG and start + 2 + size == end:
            return data[start], start + 2, end
    found = [each for each in fields_of(source, start, end) if each[0] in _KINDS]
    if len(found) > 1:
        return None
    return found[0] if found else (0, start, start)


def _value(source: Source, found: _Found, room: int) -> tuple[int, Any]:
    """Give the kind of a value, and the value as its column takes it."""
    tag, start, value = found
    kind = _KINDS.get(tag, 0)
    if kind in {STR, BYTES}:
        octets = source.data[start:value]
        if kind == STR:
            check_text(octets, start)
        return kind, octets
    if kind in {LIST, MAP}:
        as_cbor = list_as_cbor if kind == LIST else map_as_cbor
        return kind, as_cbor(source, [(start, value)], room - 1)
    return kind, value if kind else None


def _columns(kind: np.ndarray[Any, np.dtype[np.uint8]], values: list[Any]) -> dict[str, Any]:
    """Give a column for each kind that is there, and one for what is nested or was not told."""
    columns: dict[str, pa.Array[Any]] = {}
    there = set(kind.tolist())
    for name, case in (("str", STR), ("bytes", BYTES)):
        if case in there:
            told = [
                each if is_it else None
                for each, is_it in zip(values, (kind == case).tolist(), strict=True)
            ]
            column = pa.array(told, pa.binary())
            places: Any = np.arange(len(told))
            columns[name] = words(column, places, least=16, text=case == STR)
    for name, case, form in (("int", INT, "i8"), ("double", DOUBLE, "f8"), ("bool", BOOL, "u8")):
        if case in there:
            is_it = kind == case
            numbers = np.array(
                [each if one else 0 for each, one in zip(values, is_it.tolist(), strict=True)],
                np.uint64,
            ).view(form)
            columns[name] = pa.array(numbers != 0 if case == BOOL else numbers, mask=~is_it)
    rest = [
        each if one in {LIST, MAP} or each is UNDEFINED else None
        for each, one in zip(values, kind.tolist(), strict=True)
    ]
    if any(each is not None for each in rest):
        columns["ser"] = pa.array(rest, pa.binary())
    return columns
