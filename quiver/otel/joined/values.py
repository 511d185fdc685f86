"""What a row of a payload says, for people and for SQL: maps of texts, ids in hexadecimal."""

from __future__ import annotations

import base64
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from quiver.otel.joined.nested import json_of_cbor

__all__ = [
    "MAP",
    "TIME",
    "Ints",
    "child",
    "field",
    "hexadecimal",
    "ids",
    "lists",
    "maps",
    "micros",
    "named",
    "no_lists",
    "numbers",
    "plainly",
    "texts",
    "times",
    "values_as_texts",
]

Ints = npt.NDArray[Any]

arrow: Any = pa
"""Its stubs know less than it does."""

MAP: Final = pa.map_(pa.utf8(), pa.utf8())
TIME: Final = pa.timestamp("us", "UTC")
_DIGITS: Final = np.frombuffer(b"".join(b"%02x" % each for each in range(256)), np.uint16)
_STR, _INT, _DOUBLE, _BOOL, _MAP, _SLICE, _BYTES = range(1, 8)


def plainly(array: Any) -> Any:  # noqa: ANN401 - arrays of any type
    """Give a column without a dictionary."""
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def field(batch: pa.RecordBatch | None, name: str, kind: pa.DataType, *, rows: int) -> Any:  # noqa: ANN401
    """Give a column as a plain one of a type; nulls if it is not there."""
    if batch is None or name not in batch.schema.names:
        return arrow.nulls(rows, kind)
    return _as(plainly(batch.column(name)), kind)


def child(batch: pa.RecordBatch, path: tuple[str, str], kind: pa.DataType) -> Any:  # noqa: ANN401
    """Do the same with a column inside a struct."""
    if path[0] not in batch.schema.names:
        return arrow.nulls(batch.num_rows, kind)
    outer: Any = batch.column(path[0])
    index = outer.type.get_field_index(path[1])
    return (
        arrow.nulls(batch.num_rows, kind) if index < 0 else _as(plainly(outer.field(index)), kind)
    )


def _as(array: Any, kind: pa.DataType) -> Any:  # noqa: ANN401
    if array.type == kind:
        return array
    return array.cast(kind, safe=False)


def texts(batch: pa.RecordBatch | None, name: str, rows: int) -> Any:  # noqa: ANN401
    """Give a column of texts."""
    return field(batch, name, pa.utf8(), rows=rows)


def numbers(batch: pa.RecordBatch | None, name: str, rows: int) -> Any:  # noqa: ANN401
    """Give a column of whole numbers; those from 2^63 on wrap around, as SQL has no such type."""
    return field(batch, name, pa.int64(), rows=rows)


def times(batch: pa.RecordBatch | None, name: str, rows: int) -> tuple[Any, Any]:
    """Give times, floored to microseconds, and as nanoseconds; 0 is none."""
    if batch is None or name not in batch.schema.names:
        return arrow.nulls(rows, TIME), arrow.nulls(rows, pa.int64())
    return _times(plainly(batch.column(name)).view(pa.int64()))


def _times(nanoseconds: Any) -> tuple[Any, Any]:  # noqa: ANN401
    told = arrow.compute.if_else(
        arrow.compute.equal(nanoseconds, 0), pa.scalar(None, pa.int64()), nanoseconds
    )
    return micros(told), told


def micros(nanoseconds: Any) -> Any:  # noqa: ANN401
    """Floor times to microseconds."""
    floored = np.floor_divide(nanoseconds.fill_null(0).to_numpy(), 1000)
    mask = nanoseconds.is_null().to_numpy(zero_copy_only=False)
    return pa.array(floored, pa.int64(), mask=mask).view(TIME)


def ids(batch: pa.RecordBatch) -> Any:  # noqa: ANN401
    """Give the ids of rows, null where nothing hangs from one."""
    return field(batch, "id", pa.uint32(), rows=batch.num_rows)


def named(numbers: Any, names: Any) -> Any:  # noqa: ANN401
    """Give the names of an enumeration; 0 if there is no number, null for one that is not known."""
    known = numbers.fill_null(0)
    inside = arrow.compute.and_(
        arrow.compute.greater_equal(known, 0), arrow.compute.less(known, len(names))
    )
    return names.take(arrow.compute.if_else(inside, known, pa.scalar(None, pa.int32())))


def hexadecimal(batch: pa.RecordBatch | None, name: str, rows: int) -> Any:  # noqa: ANN401
    """Give ids as texts of hexadecimal digits; those of zeros alone are none."""
    if batch is None or name not in batch.schema.names:
        return arrow.nulls(rows, pa.utf8())
    array = plainly(batch.column(name))
    size = array.type.byte_width
    filled = array.fill_null(b"\0" * size) if array.null_count else array
    start = filled.offset * size
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[start : start + rows * size]
    digits = _DIGITS[raw]
    there = raw.reshape(rows, size).any(axis=1)
    offsets = np.arange(rows + 1, dtype=np.int32) * (2 * size)
    valid = arrow.py_buffer(np.packbits(there, bitorder="little").tobytes())
    buffers = [valid, arrow.py_buffer(offsets), arrow.py_buffer(digits)]
    return arrow.Array.from_buffers(pa.utf8(), rows, buffers)


def values_as_texts(kinds: Any, column: Any) -> Any:  # noqa: ANN401
    """Say values of any type as texts: ``column`` gives the column of a name, or None.

    Bytes become base64, lists and maps JSON, and an empty value is null.
    """
    kinds = plainly(kinds).fill_null(0)
    found = arrow.nulls(len(kinds), pa.utf8())
    for kind, name, said in (
        (_STR, "str", None),
        (_INT, "int", None),
        (_DOUBLE, "double", None),
        (_BOOL, "bool", None),
        (_BYTES, "bytes", _base64),
        (_MAP, "ser", json_of_cbor),
        (_SLICE, "ser", json_of_cbor),
    ):
        of_kind = arrow.compute.equal(kinds, kind)
        if not arrow.compute.any(of_kind).as_py() or (values := column(name)) is None:
            continue
        if said is None:
            told = plainly(values).cast(pa.utf8())
        else:
            wanted = arrow.compute.if_else(of_kind, plainly(values), pa.scalar(None, pa.binary()))
            told = _each(wanted, said)
        found = arrow.compute.if_else(of_kind, told, found)
    return found


def _each(values: Any, said: Any) -> Any:  # noqa: ANN401
    """Say each different value once; there are few that are neither texts nor numbers."""
    words = values.dictionary_encode()
    told = [None if each is None else said(each) for each in words.dictionary.to_pylist()]
    return pa.array(told, pa.utf8()).take(words.indices)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def maps(ids: Any, attributes: pa.RecordBatch | None) -> Any:  # noqa: ANN401
    """Give each row the attributes that hang from its id, as a map; an empty one if none do."""
    rows = len(ids)
    if attributes is None or not attributes.num_rows:
        return _empty_maps(rows)
    order, offsets = _places(ids, attributes.column("parent_id"))
    names = attributes.schema.names
    told = values_as_texts(
        attributes.column("type"), lambda name: attributes.column(name) if name in names else None
    )
    keys = plainly(attributes.column("key")).take(order)
    return arrow.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, told.take(order))


def _empty_maps(rows: int) -> Any:  # noqa: ANN401
    none = pa.array([], pa.utf8())
    return arrow.MapArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), none, none)


def lists(ids: Any, parents: Any, items: Any) -> Any:  # noqa: ANN401
    """Give each row what hangs from its id, as a list."""
    order, offsets = _places(ids, parents)
    return arrow.ListArray.from_arrays(pa.array(offsets, pa.int32()), items.take(order))


def no_lists(rows: int, kind: pa.DataType) -> Any:  # noqa: ANN401
    """Give an empty list for each row."""
    offsets = pa.array(np.zeros(rows + 1, np.int32))
    return arrow.ListArray.from_arrays(offsets, pa.array([], kind))


def _places(
    ids: Any,  # noqa: ANN401
    parents: Any,  # noqa: ANN401
) -> tuple[Any, Ints]:
    """Find which rows hang from each id, one id behind the other, and where those of each begin."""
    above = plainly(parents).cast(pa.int64()).fill_null(-2).to_numpy()
    order = np.argsort(above, kind="stable")
    ordered = above[order]
    wanted = plainly(ids).cast(pa.int64()).fill_null(-1).to_numpy()
    first = np.searchsorted(ordered, wanted, "left")
    counts = np.searchsorted(ordered, wanted, "right") - first
    offsets = np.zeros(len(wanted) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return pa.array(order[np.repeat(first, counts) + within]), offsets
