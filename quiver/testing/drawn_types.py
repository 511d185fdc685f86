"""Hypothesis strategies for types and fields: everything that Arrow can keep, at any depth.

What its IPC format cannot keep (``quiver.ipc.check_schema`` refuses it) is not drawn.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["INDEX_TYPES", "LEAVES", "WRAPPERS", "metadata", "names", "types"]

Kind = Any
Kinds = st.SearchStrategy[Any]

_UNITS: Final = ("s", "ms", "us", "ns")
_ZONES: Final = ("UTC", "+05:30", "Asia/Tokyo", "x")

LEAVES: Final[tuple[Kind, ...]] = (
    pa.null(),
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(18, -3), pa.decimal128(38, 10), pa.decimal256(76, 0)),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(0), pa.binary(5)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in _UNITS),
    *(pa.timestamp(unit, zone) for unit, zone in zip(_UNITS, _ZONES, strict=True)),
    *(pa.duration(unit) for unit in _UNITS),
    pa.month_day_nano_interval(),
)
"""One of each type without children."""

INDEX_TYPES: Final[tuple[Kind, ...]] = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)

_RUN_ENDS: Final = (pa.int16(), pa.int32(), pa.int64())


def names() -> st.SearchStrategy[str]:
    """Draw a name: short, so that two are often the same."""
    return st.sampled_from(["a", "b", "", "ä", "two words", "\n"])


def metadata() -> st.SearchStrategy[Any]:
    """Draw metadata: mostly none, or any bytes."""
    keys = st.sampled_from([b"unit", b"", b"\xff\x00", "ü".encode()])
    some = st.dictionaries(keys, st.binary(max_size=4), min_size=1, max_size=3)
    return st.integers(0, 3).flatmap(lambda roll: st.none() if roll else some)


@st.composite
def _fields(draw: st.DrawFn, inner: Kinds) -> Any:  # noqa: ANN401
    kind = draw(inner)
    nullable = pa.types.is_null(kind) or draw(st.booleans())
    return pa.field(draw(names()), kind, nullable=nullable, metadata=draw(metadata()))


def _maps(inner: Kinds) -> Kinds:
    """Draw a map; its keys are never null, and Arrow's reader knows no names but these two."""
    keys = _fields(inner).filter(lambda field: not pa.types.is_null(field.type))
    keys = keys.map(lambda field: field.with_nullable(nullable=False).with_name("key"))
    items = _fields(inner).map(lambda field: field.with_name("value"))
    return st.builds(pa.map_, keys, items, st.booleans())


@st.composite
def _unions(draw: st.DrawFn, inner: Kinds) -> Kind:
    children = draw(st.lists(_fields(inner), min_size=1, max_size=3))
    codes = draw(st.permutations([0, 1, 5, 127]))[: len(children)]
    return draw(st.sampled_from([pa.sparse_union, pa.dense_union]))(children, codes)


def _is_extension(kind: Kind) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _dictionaries(inner: Kinds) -> Kinds:
    values = inner.filter(lambda k: not _is_extension(k) and not pa.types.is_dictionary(k))
    return st.builds(pa.dictionary, st.sampled_from(INDEX_TYPES), values, st.booleans())


def _extensions(inner: Kinds) -> Kinds:
    known: list[Kind] = [
        pa.uuid(),
        pa.bool8(),
        pa.json_(pa.string()),
        pa.json_(pa.large_string()),
        pa.json_(pa.string_view()),
        pa.fixed_shape_tensor(pa.int16(), (2, 1), dim_names=["r", "c"]),
        pa.fixed_shape_tensor(pa.float64(), (2,)),
    ]
    storage = inner.filter(lambda kind: not _is_extension(kind))
    opaque = st.builds(pa.opaque, storage, st.just("some type"), st.just("some vendor"))
    return st.sampled_from(known) | opaque


WRAPPERS: Final[dict[str, Any]] = {
    "list": lambda inner: _fields(inner).map(pa.list_),
    "large list": lambda inner: _fields(inner).map(pa.large_list),
    "fixed size list": lambda inner: st.builds(pa.list_, _fields(inner), st.integers(0, 2)),
    "list view": lambda inner: _fields(inner).map(pa.list_view),
    "large list view": lambda inner: _fields(inner).map(pa.large_list_view),
    "struct": lambda inner: st.lists(_fields(inner), max_size=3).map(pa.struct),
    "map": _maps,
    "union": _unions,
    "run-end encoded": lambda inner: st.builds(
        pa.run_end_encoded, st.sampled_from(_RUN_ENDS), inner
    ),
    "dictionary": _dictionaries,
    "extension": _extensions,
}
"""For each kind of nesting a strategy of it, given one for what is inside."""


def types(*, depth: int = 2) -> Kinds:
    """Draw a type: a leaf, or any nesting of at most ``depth`` levels."""
    leaves: Kinds = st.sampled_from(LEAVES)
    if depth == 0:
        return leaves
    inner = types(depth=depth - 1)
    nested = st.sampled_from(list(WRAPPERS)).flatmap(lambda name: WRAPPERS[name](inner))
    return st.integers(0, 2).flatmap(lambda roll: nested if roll else leaves)
