"""AnyValue, back from a kind and a column for each kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quiver.errors import InputError
from quiver.otel.otlp.cbor import UNDEFINED
from quiver.otel.otlp.columns import rare
from quiver.otel.otlp.rows import Rows
from quiver.otel.otlp.uncbor import cbor_as_list, cbor_as_map
from quiver.otel.otlp.values import BOOL, BYTES, DOUBLE, INT, LIST, MAP, STR
from quiver.otel.wire import Flags, Messages

__all__ = ["untold", "write_values"]


def untold(rows: Rows) -> Flags:
    """Tell which rows have no value at all, where an empty one would be another thing."""
    kind = rows.numbers("type", pa.uint8())
    ser = rows.array("ser", pa.binary()) if (kind == 0).any() else None
    if ser is None:
        return np.zeros(rows.count, np.bool_)
    same: Any = pc.equal(ser, pa.scalar(UNDEFINED, pa.binary()))
    return (kind == 0) & same.fill_null(False).to_numpy(zero_copy_only=False)


def write_values(rows: Rows, *, room: int) -> Messages:
    """Write a value for each row; they may hold messages ``room`` deep.

    Raises InputError for a kind that OTAP does not have, and for CBOR that OTLP has no place for.
    """
    kind: NDArray[np.uint8] = rows.numbers("type", pa.uint8())
    if (kind > BYTES).any():
        raise InputError(f"an attribute of type {int(kind.max())}; OTAP has 0 to {BYTES}")
    out = Messages(rows.count)
    if (of_it := kind == STR).any():
        out.text(1, _whole(rows, "str", pa.string()), of_it)
    if (of_it := kind == BOOL).any():
        values = rows.numbers("bool", pa.bool_())
        out.varint(2, values.astype(np.uint64), of_it)
    if (of_it := kind == INT).any():
        out.varint(3, rows.numbers("int", pa.int64()).view(np.uint64), of_it)
    if (of_it := kind == DOUBLE).any():
        out.fixed64(4, rows.numbers("double", pa.float64()).view(np.uint64), of_it)
    if (of_it := kind == LIST).any():
        out.text(5, _nested(rows, of_it, lambda ser: cbor_as_list(ser, room - 1)))
    if (of_it := kind == MAP).any():
        out.text(6, _nested(rows, of_it, lambda ser: cbor_as_map(ser, room - 1)))
    if (of_it := kind == BYTES).any():
        out.text(7, _whole(rows, "bytes", pa.binary()), of_it)
    return out


def _whole(rows: Rows, name: str, kind: pa.DataType) -> pa.Array[Any]:
    """Give a column without nulls: what is null in it is empty if its kind says that it is one."""
    column = rows.array(name, kind)
    empty: Any = pa.scalar("" if kind == pa.string() else b"", kind)
    if column is None:
        return pa.repeat(empty, rows.count)
    return column.fill_null(empty) if column.null_count else column


def _nested(rows: Rows, of_it: Flags, back: Callable[[bytes], bytes]) -> pa.Array[Any]:
    """Give lists or maps as protobuf, null in rows of another kind."""
    ser = rows.array("ser", pa.binary())
    where = np.flatnonzero(of_it)
    found = [None] * where.size if ser is None else ser.take(where).to_pylist()
    told = [b"" if each is None else back(each) for each in found]
    return rare(where, told, rows.count)
