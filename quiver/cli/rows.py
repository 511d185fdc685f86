"""Arrow values as the values of NDJSON and CSV, without loss.

========================  =====================================================================
Arrow                     NDJSON
========================  =====================================================================
integers                  numbers; beyond 2^53 strings of digits
floats                    numbers; "NaN", "Infinity", "-Infinity"
decimals                  strings of digits
text, binary              strings; base64
timestamps                RFC 3339, nine digits of the second; with Z if they have a time zone
dates, times              2013-01-31, 17:30:00.000000000
durations                 whole nanoseconds as for integers; intervals are objects
lists, structs, maps      arrays, objects, arrays of {"key", "value"}
dictionaries, run ends    the values that they stand for
========================  =====================================================================

CSV has the same texts, integers always in digits, an empty field for null, a quoted empty field
for an empty text, and JSON text in the fields of nested columns.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.cli.output import plain
from quiver.errors import InputError
from quiver.scan.nested import decode

__all__ = ["csv_batch", "json_rows"]

Array = Any
Values = list[Any]

_CONTROL: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""JSON escapes other control characters itself; terminals obey these too."""

_NANOSECONDS_IN: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def json_rows(batch: pa.RecordBatch) -> Iterator[str]:
    """Write each row of a batch as one line of JSON, without the line's end."""
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise InputError("a column name appears twice: a JSON object cannot hold both")
    columns = [_values(column) for column in batch.columns]
    for row in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
        yield _dump(dict(zip(names, row, strict=True)))


def csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace each column that CSV cannot hold by text; the others stay as they are."""
    return pa.RecordBatch.from_arrays(
        [_flat(column) for column in batch.columns], names=batch.schema.names
    )


def _dump(value: Any) -> str:  # noqa: ANN401
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_CONTROL)


def _flat(array: Array) -> Array:
    array = decode(array)
    kind = array.type
    if kinds.is_nested(kind) or kinds.is_interval(kind):
        texts = [None if value is None else _dump(value) for value in _values(array)]
        return pa.array(texts, pa.string())
    if kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_floating(kind):
        return array
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return array
    return pa.array([None if v is None else str(v) for v in _values(array)], pa.string())


def _values(array: Array) -> Values:
    array = decode(array)
    kind = array.type
    for belongs, convert in _CONVERTERS:
        if belongs(kind):
            return convert(array)
    return [plain(value) for value in array.to_pylist()]


def _floats(array: Array) -> Values:
    return [
        value if value is None or math.isfinite(value) else _odd_float(value)
        for value in array.cast(pa.float64()).to_pylist()
    ]


def _odd_float(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _decimals(array: Array) -> Values:
    return [None if value is None else f"{value:f}" for value in array.to_pylist()]


def _binaries(array: Array) -> Values:
    return [
        None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()
    ]


def _timestamps(array: Array) -> Values:
    zone = "Z" if array.type.tz is not None else ""
    texts = _moments(array, f"datetime64[{array.type.unit}]")
    return [None if text is None else f"{text}{zone}" for text in texts]


def _dates(array: Array) -> Values:
    unit = "D" if kinds.is_date32(array.type) else "ms"
    texts = _moments(array, f"datetime64[{unit}]")
    return [None if text is None else text.split("T")[0] for text in texts]


def _times(array: Array) -> Values:
    texts = _moments(array, f"datetime64[{array.type.unit}]")
    return [None if text is None else text.split("T")[1] for text in texts]


def _moments(array: Array, unit: str) -> Values:
    """Write moments in the calendar of any year, with nine digits of the second."""
    width = pa.int32() if array.type.bit_width == pa.int32().bit_width else pa.int64()
    numbers = array.view(width).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    texts = np.datetime_as_string(numbers.view(unit)).tolist()
    valid = array.is_valid().to_pylist()
    return [_padded(text) if ok else None for text, ok in zip(texts, valid, strict=True)]


def _padded(text: str) -> str:
    day, has_time, time = text.partition("T")
    whole, _, fraction = time.partition(".")
    return f"{day}T{whole}.{fraction:0<9}" if has_time else day


def _durations(array: Array) -> Values:
    factor = _NANOSECONDS_IN[array.type.unit]
    numbers = array.view(pa.int64()).to_pylist()
    return [None if value is None else plain(value * factor) for value in numbers]


def _intervals(array: Array) -> Values:
    return [
        None
        if value is None
        else {"months": value[0], "days": value[1], "nanoseconds": plain(value[2])}
        for value in array.to_pylist()
    ]


def _structs(array: Array) -> Values:
    names = [field.name for field in array.type]
    columns = [_values(array.field(index)) for index in range(len(names))]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if ok else None
        for row, ok in zip(rows, valid, strict=True)
    ]


def _lists(array: Array) -> Values:
    return _split(array, _values(array.flatten()))


def _maps(array: Array) -> Values:
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    keys = _values(array.keys[first:last])
    items = _values(array.items[first:last])
    pairs = [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]
    bounds = (offset.as_py() - first for offset in offsets)
    ends = list(bounds)
    valid = array.is_valid().to_pylist()
    return [
        pairs[start:end] if ok else None
        for start, end, ok in zip(ends, ends[1:], valid, strict=False)
    ]


def _split(array: Array, values: Values) -> Values:
    rows: Values = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        if length is None:
            rows.append(None)
        else:
            rows.append(values[start : start + length])
            start += length
    return rows


def _is_binary(kind: Any) -> bool:  # noqa: ANN401
    return (
        kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_fixed_size_binary(kind)
        or kinds.is_binary_view(kind)
    )


def _is_list(kind: Any) -> bool:  # noqa: ANN401
    return (
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
        or kinds.is_large_list_view(kind)
    )


_CONVERTERS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Array], Values]], ...]] = (
    (kinds.is_floating, _floats),
    (kinds.is_decimal, _decimals),
    (_is_binary, _binaries),
    (kinds.is_timestamp, _timestamps),
    (kinds.is_date, _dates),
    (kinds.is_time, _times),
    (kinds.is_duration, _durations),
    (kinds.is_interval, _intervals),
    (kinds.is_struct, _structs),
    (kinds.is_map, _maps),
    (_is_list, _lists),
)
