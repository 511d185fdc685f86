"""Arrow values as the values of NDJSON and CSV, without loss.

========================  =====================================================================
Arrow                     NDJSON
========================  =====================================================================
integers                  numbers; beyond 2^53 strings of digits
floats                    numbers, the shortest for their width; "NaN", "Infinity", "-Infinity"
decimals                  strings of digits
text, binary              strings; base64
timestamps                RFC 3339, nine digits of the second; with Z if they have a time zone;
                          years outside of 0000 to 9999 have a sign
dates, times              2013-01-31, 17:30:00.000000000
durations                 whole nanoseconds as for integers; intervals are objects
lists, structs, maps      arrays, objects, arrays of {"key", "value"}
unions                    the value of the child that each row chose
dictionaries, run ends    the values that they stand for
extensions                the values of their storage
========================  =====================================================================

CSV has the same texts, integers always in digits, floats as Arrow writes them (``nan``, ``inf``,
``1`` for ``1.0``), an empty field for null, a quoted empty field for an empty text, and JSON text
in the fields of nested columns. ``quiver/cli/JSON.md`` tells users so.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.nested import decode, repeated_child
from quiver.errors import InputError
from quiver.ipc import child_types

__all__ = ["check_names", "csv_batch", "csv_schema", "json_rows", "text_rows"]

Array = Any
Values = list[Any]

_EXACT_MAX: Final = 1 << 53
"""Many readers of JSON make floats of whole numbers beyond this."""

_CONTROL: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""JSON escapes other control characters itself; terminals obey these too."""

_NO_OBJECT: Final = "a JSON object cannot hold both"
_NAMES_HINT: Final = "the arrow format keeps both; or leave one out"
_OFFSET_BYTES: Final = 4
_YEAR_DIGITS: Final = 4
_NANOSECONDS_IN: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def check_names(schema: pa.Schema, *, nested_only: bool = False) -> None:
    """Raise InputError if a JSON object would have to hold two values of one name.

    ``nested_only`` allows it among the columns themselves, as CSV does.
    """
    for field in schema:
        name = repeated_child(field.type)
        if name is not None:
            raise InputError(
                f"column {field.name!r} has structs with {name!r} twice: {_NO_OBJECT}",
                hint=_NAMES_HINT,
            )
        if not nested_only and schema.names.count(field.name) > 1:
            raise InputError(
                f"column {field.name!r} is there twice: {_NO_OBJECT}", hint=_NAMES_HINT
            )


def json_rows(batch: pa.RecordBatch, *, whole: Collection[int] = ()) -> Iterator[str]:
    """Write each row of a batch as one line of JSON, without the line's end.

    ``check_names`` must have passed its schema: of values of one name only the last is kept.
    ``whole`` are the numbers of columns of decimals that are integers.
    """
    names = batch.schema.names
    columns = _columns(batch, whole)
    for row in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
        yield _dump(dict(zip(names, row, strict=True)))


def text_rows(batch: pa.RecordBatch, *, whole: Collection[int] = ()) -> list[list[str]]:
    """Write the values of each row as a person reads them: those of JSON, texts without quotes."""
    columns = [[_text(value) for value in column] for column in _columns(batch, whole)]
    return [list(row) for row in zip(*columns, strict=True)]


def _exact(value: Any) -> Any:  # noqa: ANN401
    """Turn a whole number that a reader may make a float of into its digits."""
    if isinstance(value, int) and not -_EXACT_MAX <= value <= _EXACT_MAX:
        return str(value)
    return value


def _text(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else _dump(value)


def _columns(batch: pa.RecordBatch, whole: Collection[int]) -> list[Values]:
    return [
        [None if value is None else _exact(int(value)) for value in column.to_pylist()]
        if index in whole
        else _values(column)
        for index, column in enumerate(batch.columns)
    ]


def csv_schema(schema: pa.Schema) -> pa.Schema:
    """Give the schema of what ``csv_batch`` makes of batches of this one."""
    fields = []
    for field in schema:
        kind = _bare(field.type)
        fields.append(pa.field(field.name, kind if _is_csv(kind) else pa.string()))
    return pa.schema(fields)


def csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace each column that CSV cannot hold by text; the others stay as they are."""
    return pa.RecordBatch.from_arrays(
        [_flat(column) for column in batch.columns], names=batch.schema.names
    )


def _bare(kind: pa.DataType) -> pa.DataType:
    """Give the type under dictionaries, runs and extensions, as ``decode`` gives the values."""
    while isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType | pa.BaseExtensionType):
        (kind,) = child_types(kind)
    return kind


def _is_csv(kind: pa.DataType) -> bool:
    """Say whether Arrow writes the values of a type to CSV as we would."""
    return (
        kinds.is_integer(kind)
        or kinds.is_boolean(kind)
        or kinds.is_floating(kind)
        or kinds.is_string(kind)
        or kinds.is_large_string(kind)
    )


def _dump(value: Any) -> str:  # noqa: ANN401
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_CONTROL)


def _flat(array: Array) -> Array:
    array = decode(array)
    kind = array.type
    if _is_csv(kind):
        return array
    if kinds.is_nested(kind) or kinds.is_interval(kind):
        texts = [None if value is None else _dump(value) for value in _values(array)]
        return pa.array(texts, pa.string())
    return pa.array([None if v is None else str(v) for v in _values(array)], pa.string())


def _values(array: Array) -> Values:
    array = decode(array)
    kind = array.type
    for belongs, convert in _CONVERTERS:
        if belongs(kind):
            return convert(array)
    return [_exact(value) for value in array.to_pylist()]


def _floats(array: Array) -> Values:
    if kinds.is_float32(array.type):  # 1.1 would be 1.100000023841858 as a double.
        texts = array.cast(pa.string()).to_pylist()
        values = [None if text is None else float(text) for text in texts]
    else:
        values = array.cast(pa.float64()).to_pylist()
    return [
        value if value is None or math.isfinite(value) else _odd_float(value) for value in values
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
    year, month_and_day = day[:-6], day[-6:]
    if len(year) != _YEAR_DIGITS or year.startswith("-"):
        sign = "-" if year.startswith("-") else "+"
        day = f"{sign}{year.removeprefix('-'):0>{_YEAR_DIGITS}}{month_and_day}"
    whole, _, fraction = time.partition(".")
    return f"{day}T{whole}.{fraction:0<9}" if has_time else day


def _durations(array: Array) -> Values:
    factor = _NANOSECONDS_IN[array.type.unit]
    numbers = array.view(pa.int64()).to_pylist()
    return [None if value is None else _exact(value * factor) for value in numbers]


def _intervals(array: Array) -> Values:
    return [
        None
        if value is None
        else {"months": value[0], "days": value[1], "nanoseconds": _exact(value[2])}
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


def _unions(array: Array) -> Values:
    """Take each row from the child that it chose, after that child's own rules."""
    # From the buffers: type_codes and offsets of a slice begin where the whole array does.
    rows, first, buffers = len(array), array.offset, array.buffers()
    codes = np.frombuffer(buffers[1], np.int8, rows, first).tolist() if rows else []
    children = [_values(array.field(index)) for index in range(array.type.num_fields)]
    by_code = dict(zip(array.type.type_codes, children, strict=True))
    places = list(range(rows))
    if array.type.mode == "dense" and rows:
        places = np.frombuffer(buffers[2], np.int32, rows, first * _OFFSET_BYTES).tolist()
    return [by_code[code][place] for code, place in zip(codes, places, strict=True)]


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
    (kinds.is_union, _unions),
    (_is_list, _lists),
)
