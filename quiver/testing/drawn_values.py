"""Hypothesis strategies for arrays of any type, made from buffers so that nothing is tidied up.

Under nulls stands whatever was drawn, indices out of range and bytes of lists among it; list views
overlap; dictionaries have repeats, nulls and values that nobody uses; floats are any bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types as kinds

from quiver.schemas import child_fields

__all__ = ["arrays"]

Array = Any
Kind = Any

_TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=4) | st.just("longer than 12 bytes")
_BYTES: Final = st.binary(max_size=4) | st.just(b"\0\xff longer than 12 bytes")
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_DAY_MS: Final = 86_400_000
_ENTRIES_MAX: Final = 4
_FLOATS: Final = {
    16: (0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01),
    32: (0, 0x8000_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFFC0_0001, 0x7F80_0001),
    64: (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0xFFF8 << 48) + 1, (0x7FF << 52) + 1),
}
"""Both zeros, both infinities, and NaNs of different bits."""


@st.composite
def arrays(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool = True) -> Array:
    """Draw an array of so many rows; nulls only where ``nullable``, or where there is no choice."""
    if kinds.is_null(kind):
        return pa.nulls(rows)
    if isinstance(kind, pa.BaseExtensionType):
        storage = draw(arrays(kind.storage_type, rows, nullable=nullable))
        return pa.ExtensionArray.from_storage(kind, storage)
    if isinstance(kind, pa.DictionaryType):
        return draw(_dictionaries(kind, rows, nullable=nullable))
    nested = next((make for belongs, make in _NESTED if belongs(kind)), None)
    if nested is not None:
        return draw(nested(kind, rows, nullable=nullable))
    return draw(_leaves(kind, rows, nullable=nullable))


@st.composite
def _validity(draw: st.DrawFn, rows: int, *, nullable: bool) -> Any:  # noqa: ANN401
    """Draw a bitmap, or None if nothing is null."""
    if not nullable or not draw(st.booleans()):
        return None
    bits = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    return pa.py_buffer(np.packbits(np.array(bits, bool), bitorder="little").tobytes())


@st.composite
def _leaves(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    values = draw(st.lists(_value(kind), min_size=rows, max_size=rows))
    whole: Array = pa.array(values, _carrier(kind))
    validity = draw(_validity(rows, nullable=nullable))
    return pa.Array.from_buffers(kind, rows, [validity, *whole.buffers()[1:]])


def _carrier(kind: Kind) -> Kind:
    """Give the type as which Python's values become an array, bit for bit."""
    if kinds.is_floating(kind):
        return {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[kind.bit_width]
    if kinds.is_temporal(kind) and not kinds.is_interval(kind):
        return {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
    if kinds.is_decimal(kind) or kinds.is_interval(kind):
        return pa.binary(kind.bit_width // 8)
    return kind


def _value(kind: Kind) -> st.SearchStrategy[Any]:
    if kinds.is_temporal(kind):
        return _time(kind)
    if kinds.is_boolean(kind):
        return st.booleans()
    if kinds.is_unsigned_integer(kind) or kinds.is_signed_integer(kind):
        least = -(1 << (kind.bit_width - 1)) if kinds.is_signed_integer(kind) else 0
        return st.integers(least, least + (1 << kind.bit_width) - 1)
    if kinds.is_floating(kind):
        special = st.sampled_from(_FLOATS[kind.bit_width])
        return special | st.integers(0, (1 << kind.bit_width) - 1)
    if kinds.is_decimal(kind):
        most = 10**kind.precision - 1
        width = kind.bit_width // 8
        return st.integers(-most, most).map(lambda n: n.to_bytes(width, "little", signed=True))
    if kinds.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    return _TEXT if kind in (pa.string(), pa.large_string(), pa.string_view()) else _BYTES


def _time(kind: Kind) -> st.SearchStrategy[Any]:
    if kinds.is_interval(kind):
        parts = st.tuples(st.integers(-9, 9), st.integers(-40, 40), st.integers(-(2**62), 2**62))
        return parts.map(lambda three: struct.pack("<iiq", *three))
    if kinds.is_date64(kind):
        return st.integers(-10_000, 100_000).map(lambda days: days * _DAY_MS)
    if kinds.is_time(kind):
        return st.integers(0, _DAY[kind.unit] - 1)
    return st.integers(-(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1)


@st.composite
def _dictionaries(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    count = draw(st.integers(0, _ENTRIES_MAX))
    validity = draw(_validity(rows, nullable=nullable))
    if rows and validity is None:
        count = max(count, 1)
    values = draw(arrays(kind.value_type, count))
    dtype = np.dtype(kind.index_type.to_pandas_dtype())
    most = np.iinfo(dtype).max
    drawn = st.integers(0, count - 1) if count else st.just(most)
    indices = np.array(draw(st.lists(drawn, min_size=rows, max_size=rows)), dtype)
    if validity is not None:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[:rows]
        if not count and bits.any():
            validity = pa.py_buffer(bytes(len(validity)))
        indices[bits == 0] = draw(st.sampled_from([0, most]))
    buffers = [validity, pa.py_buffer(indices.tobytes())]
    held = pa.Array.from_buffers(kind.index_type, rows, buffers)
    return pa.DictionaryArray.from_arrays(held, values, ordered=kind.ordered, safe=False)


@st.composite
def _runs_of_children(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    """Draw a list, a large list or a map."""
    lengths = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    wide = kinds.is_large_list(kind)
    offsets = np.cumsum([0, *lengths]).astype(np.int64 if wide else np.int32)
    below = int(offsets[-1])
    children = [draw(arrays(f.type, below, nullable=f.nullable)) for f in child_fields(kind)]
    if kinds.is_map(kind):
        if children[0].null_count:  # Of a type without other values; Arrow ends the process then.
            offsets, children = offsets * 0, [child.slice(0, 0) for child in children]
        children = [pa.StructArray.from_arrays(children, fields=child_fields(kind))]
    buffers = [draw(_validity(rows, nullable=nullable)), pa.py_buffer(offsets.tobytes())]
    return pa.Array.from_buffers(kind, rows, buffers, children=children)


@st.composite
def _fixed_lists(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    field = kind.value_field
    child = draw(arrays(field.type, rows * kind.list_size, nullable=field.nullable))
    return pa.Array.from_buffers(
        kind, rows, [draw(_validity(rows, nullable=nullable))], children=[child]
    )


@st.composite
def _list_views(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    below = draw(st.integers(0, _ENTRIES_MAX))
    spans = st.tuples(st.integers(0, below), st.integers(0, below)).map(sorted)
    drawn = draw(st.lists(spans, min_size=rows, max_size=rows))
    dtype = np.int64 if kinds.is_large_list_view(kind) else np.int32
    field = kind.value_field
    return pa.Array.from_buffers(
        kind,
        rows,
        [
            draw(_validity(rows, nullable=nullable)),
            pa.py_buffer(np.array([start for start, _ in drawn], dtype).tobytes()),
            pa.py_buffer(np.array([end - start for start, end in drawn], dtype).tobytes()),
        ],
        children=[draw(arrays(field.type, below, nullable=field.nullable))],
    )


@st.composite
def _structs(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:
    children = [draw(arrays(f.type, rows, nullable=f.nullable)) for f in child_fields(kind)]
    return pa.Array.from_buffers(
        kind, rows, [draw(_validity(rows, nullable=nullable))], children=children
    )


@st.composite
def _unions(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:  # noqa: ARG001
    fields = child_fields(kind)
    places = st.integers(0, max(len(fields) - 1, 0))
    chosen = np.array(draw(st.lists(places, min_size=rows, max_size=rows)), np.int64)
    codes = np.array([*kind.type_codes, 0], np.int8)[chosen]
    buffers = [None, pa.py_buffer(codes.tobytes())]
    counts = [rows] * len(fields)
    if kind.mode == "dense":
        counts = [int((chosen == place).sum()) for place in range(len(fields))]
        offsets = [int((chosen[:row] == chosen[row]).sum()) for row in range(rows)]
        buffers.append(pa.py_buffer(np.array(offsets, np.int32).tobytes()))
    children = [
        draw(arrays(field.type, count, nullable=field.nullable))
        for field, count in zip(fields, counts, strict=True)
    ]
    return pa.Array.from_buffers(kind, rows, buffers, children=children)


@st.composite
def _runs(draw: st.DrawFn, kind: Kind, rows: int, *, nullable: bool) -> Array:  # noqa: ARG001
    ends = [row + 1 for row in range(rows - 1) if draw(st.booleans())]
    ends += [rows + draw(st.integers(0, 2))] if rows else []
    values = draw(arrays(kind.value_type, len(ends)))
    children = [pa.array(ends, kind.run_end_type), values]
    return pa.Array.from_buffers(kind, rows, [None], null_count=0, children=children)


_Belongs = Callable[[Any], bool]

_NESTED: Final[tuple[tuple[_Belongs, Callable[..., Any]], ...]] = (
    (kinds.is_list, _runs_of_children),
    (kinds.is_large_list, _runs_of_children),
    (kinds.is_map, _runs_of_children),
    (kinds.is_fixed_size_list, _fixed_lists),
    (kinds.is_list_view, _list_views),
    (kinds.is_large_list_view, _list_views),
    (kinds.is_struct, _structs),
    (kinds.is_union, _unions),
    (kinds.is_run_end_encoded, _runs),
)
