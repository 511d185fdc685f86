"""One schema for data that drifted: the narrowest type that holds each column's every value.

``common_type`` is the join of a lattice: it does not matter in which order schemas are seen, nor
how often. No join loses a value or a digit; where a cast could (an integer above 2^53 as a float),
the cast is checked when the data is read and refuses such values.

====================  ==========================================================================
types                 their common type
====================  ==========================================================================
null, T               T; so are dictionaries and runs of nulls
int, int              the narrowest signed or unsigned one; uint64 with signed: decimal128(20, 0)
float, float          the wider
int, float            float64; decimals without fraction likewise
decimal, decimal      enough digits on both sides of the point, up to 76
int, decimal          as if the integer had 20 digits
text                  string < string_view < large_string
bytes                 fixed_size_binary < binary < binary_view < large_binary
date, time, duration  date32 < date64; the finer unit
timestamp             the finer unit; two zones: UTC (same instants); never with and without zone
dictionary            the wider index over the common value type; with plain values: plain
run-end encoded       the plain value type
extension             the same one, otherwise what its storage holds, plain
union                 the same one
struct                all children, in order of first appearance; children, lists and maps recurse
list                  fixed size if equal, otherwise list; large_list if one is large
====================  ==========================================================================

Anything else (text with numbers, bool with integers, ...) has no common type: InputError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

from quiver.errors import InputError
from quiver.schemas import same_schema, same_type, strip_metadata

__all__ = ["common_type", "is_void", "union_schema"]

_Type: TypeAlias = Any
_Field: TypeAlias = Any
"""An Arrow type or field; pyarrow's stubs know them only as generics of their parameters."""

_INTEGER_DIGITS: Final = 20
"""What uint64 needs; the join of any integer with a decimal uses it, so that order is free."""

_DECIMALS: Final = (
    (9, 32, pa.decimal32),
    (18, 64, pa.decimal64),
    (38, 128, pa.decimal128),
    (76, 256, pa.decimal256),
)
_SIGNED: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNITS: Final = ("s", "ms", "us", "ns")
_TEXTS: Final = (pa.string(), pa.string_view(), pa.large_string())
_BYTES: Final = (pa.binary(), pa.binary_view(), pa.large_binary())
_WORD_BITS: Final = 64


def union_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Give the schema into which data of each of these schemas can be cast without loss.

    Columns come in order of first appearance. A column is nullable if it is so anywhere or is
    missing anywhere. Metadata stays where all that have it agree. Raises InputError that names
    the column and its types if they have no common one.
    """
    distinct = _distinct(schemas)
    if not distinct:
        raise InputError("there is no schema to make a union of")
    if len(distinct) == 1:
        return distinct[0]
    merged: dict[str, _Field] = {}
    for schema in distinct:
        _refuse_repeats(schema.names)
        for field in schema:
            known = merged.get(field.name)
            merged[field.name] = field if known is None else _join_columns(known, field)
    fields = [
        field
        if all(name in schema.names for schema in distinct)
        else field.with_nullable(nullable=True)
        for name, field in merged.items()
    ]
    metadata: Any = distinct[0].metadata
    agreed = all(schema.metadata == metadata for schema in distinct)
    return pa.schema(fields, metadata=metadata if agreed else None)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Give the narrowest type that holds the values of both; None if there is none."""
    if same_type(left, right, check_metadata=True):
        return left
    if is_void(left) or is_void(right):
        return _join_void(left, right)
    inner_left, inner_right = _unwrapped(left), _unwrapped(right)
    # Before dictionaries: runs may hide an extension in one, and Arrow's format keeps none there.
    if _is_extension(inner_left) or _is_extension(inner_right):
        if same_type(inner_left, inner_right):
            return inner_left
        return common_type(_bare(inner_left), _bare(inner_right))
    if isinstance(left, pa.DictionaryType) and isinstance(right, pa.DictionaryType):
        return _join_dictionaries(left, right)
    if inner_left is not left or inner_right is not right:
        return common_type(inner_left, inner_right)
    family = (join for belongs, join in _FAMILIES if belongs(left) and belongs(right))
    return next(family, _join_nothing)(left, right)


def _distinct(schemas: Iterable[pa.Schema]) -> list[pa.Schema]:
    found: list[pa.Schema] = []
    for schema in schemas:
        if not any(same_schema(schema, known) for known in found):
            found.append(schema)
    return found


def _refuse_repeats(names: list[str]) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(
            f"column {repeated!r} appears twice in a schema",
            hint="schemas with repeated names can only be read where all of them are equal",
        )


def _join_columns(left: _Field, right: _Field) -> _Field:
    joined = _join_fields(left, right)
    if joined is None:
        raise InputError(
            f"column {left.name!r} is {left.type} in one place and {right.type} in another",
            hint="no type holds both; read the other columns, or write one of them to a new column",
        )
    return joined


def _join_fields(left: _Field, right: _Field, *, name: str = "") -> _Field | None:
    kind = common_type(left.type, right.type)
    if kind is None:
        return None
    metadata = left.metadata if left.metadata == right.metadata else None
    nullable = left.nullable or right.nullable
    return pa.field(name or left.name, kind, nullable=nullable, metadata=metadata)


def is_void(kind: pa.DataType) -> bool:
    """Whether a type has no value but null: the null type, in dictionaries or runs as well."""
    return bool(kinds.is_null(_unwrapped(kind)))


def _join_void(left: _Type, right: _Type) -> _Type:
    """Give the type that is not void; of two that are, null is the narrowest, the rest a row."""
    if is_void(left) != is_void(right):
        return right if is_void(left) else left
    return max(left, right, key=lambda kind: (not kinds.is_null(kind), str(kind)))


def _is_extension(kind: _Type) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _unwrapped(kind: _Type) -> _Type:
    """Take off what says how values are written and not what they are."""
    while isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        kind = kind.value_type
    return kind


def _bare(kind: _Type) -> _Type:
    """Take off the name of an extension type as well."""
    return _unwrapped(kind.storage_type) if _is_extension(kind) else kind


def _join_dictionaries(left: _Type, right: _Type) -> _Type | None:
    values = common_type(left.value_type, right.value_type)
    if values is None:
        return None
    index = _join_integers(left.index_type, right.index_type)
    if kinds.is_decimal(index):
        index = pa.int64()  # No dictionary has 2^63 values.
    return pa.dictionary(index, values, left.ordered and right.ordered)


def _is_number(kind: _Type) -> bool:
    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)


def _join_numbers(left: _Type, right: _Type) -> _Type | None:
    if kinds.is_floating(left) and kinds.is_floating(right):
        return left if left.bit_width >= right.bit_width else right
    if kinds.is_floating(left) or kinds.is_floating(right):
        other = right if kinds.is_floating(left) else left
        fraction = kinds.is_decimal(other) and other.scale > 0
        return None if fraction else pa.float64()
    if kinds.is_decimal(left) or kinds.is_decimal(right):
        return _join_decimals(left, right)
    return _join_integers(left, right)


def _join_decimals(left: _Type, right: _Type) -> _Type | None:
    (left_digits, left_scale, left_bits), (right_digits, right_scale, right_bits) = (
        (kind.precision - kind.scale, kind.scale, kind.bit_width)
        if kinds.is_decimal(kind)
        else (_INTEGER_DIGITS, 0, 0)
        for kind in (left, right)
    )
    scale = max(left_scale, right_scale)
    precision = max(left_digits, right_digits) + scale
    bits_min = max(left_bits, right_bits)
    for precision_max, bits, make in _DECIMALS:
        if precision <= precision_max and bits >= bits_min:
            return make(precision, scale)
    return None


def _join_integers(left: _Type, right: _Type) -> _Type:
    if kinds.is_signed_integer(left) == kinds.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    signed, unsigned = (left, right) if kinds.is_signed_integer(left) else (right, left)
    if unsigned.bit_width == _WORD_BITS:
        return pa.decimal128(_INTEGER_DIGITS, 0)
    return _SIGNED[max(signed.bit_width, 2 * unsigned.bit_width)]


def _is_text(kind: _Type) -> bool:
    return kind in _TEXTS


def _join_texts(left: _Type, right: _Type) -> _Type:
    return max(left, right, key=_TEXTS.index)


def _is_bytes(kind: _Type) -> bool:
    return kind in _BYTES or kinds.is_fixed_size_binary(kind)


def _join_bytes(left: _Type, right: _Type) -> _Type:
    ranks = [_BYTES.index(kind) if kind in _BYTES else 0 for kind in (left, right)]
    return _BYTES[max(ranks)]


def _finer(left: _Type, right: _Type) -> Any:  # noqa: ANN401
    return max(left.unit, right.unit, key=_UNITS.index)


def _join_timestamps(left: _Type, right: _Type) -> _Type | None:
    if (left.tz is None) != (right.tz is None):
        return None
    zone = left.tz if left.tz == right.tz else "UTC"
    return pa.timestamp(_finer(left, right), zone)


def _join_dates(left: _Type, right: _Type) -> _Type:
    return left if kinds.is_date64(left) else right


def _join_times(left: _Type, right: _Type) -> _Type:
    unit = _finer(left, right)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _join_durations(left: _Type, right: _Type) -> _Type:
    return pa.duration(_finer(left, right))


def _join_structs(left: _Type, right: _Type) -> _Type | None:
    ours, theirs = ({field.name: field for field in kind} for kind in (left, right))
    if len(ours) < left.num_fields or len(theirs) < right.num_fields:
        return None  # Repeated names: which child is which cannot be told.
    children = []
    for name in ours | theirs:
        if name in ours and name in theirs:
            child = _join_fields(ours[name], theirs[name])
        else:
            child = (ours | theirs)[name].with_nullable(nullable=True)
        if child is None:
            return None
        children.append(child)
    return pa.struct(children)


def _is_large_list(kind: _Type) -> bool:
    return kinds.is_large_list(kind) or kinds.is_large_list_view(kind)


def _is_list(kind: _Type) -> bool:
    return (
        kinds.is_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
        or _is_large_list(kind)
    )


def _join_lists(left: _Type, right: _Type) -> _Type | None:
    ours, theirs = left.value_field, right.value_field
    name = ours.name if ours.name == theirs.name else "item"
    child = _join_fields(ours, theirs, name=name)
    if child is None:
        return None
    if _is_large_list(left) or _is_large_list(right):
        return pa.large_list(child)
    fixed = kinds.is_fixed_size_list(left) and kinds.is_fixed_size_list(right)
    if fixed and left.list_size == right.list_size:
        return pa.list_(child, left.list_size)
    return pa.list_(child)


def _join_nothing(_left: _Type, _right: _Type) -> None:
    return None


def _join_unions(left: _Type, right: _Type) -> _Type | None:
    """Join unions that are the same but for metadata; of others it would have to be guessed."""
    if not same_type(left, right):
        return None
    return strip_metadata(pa.schema([pa.field("", left)])).field(0).type


def _join_maps(left: _Type, right: _Type) -> _Type | None:
    key = _join_fields(left.key_field, right.key_field)
    item = _join_fields(left.item_field, right.item_field)
    if key is None or item is None:
        return None
    return pa.map_(key, item, left.keys_sorted and right.keys_sorted)


_Belongs = Callable[[Any], bool]
_Join = Callable[[Any, Any], Any]

_FAMILIES: Final[tuple[tuple[_Belongs, _Join], ...]] = (
    (_is_number, _join_numbers),
    (_is_text, _join_texts),
    (_is_bytes, _join_bytes),
    (kinds.is_timestamp, _join_timestamps),
    (kinds.is_date, _join_dates),
    (kinds.is_time, _join_times),
    (kinds.is_duration, _join_durations),
    (kinds.is_struct, _join_structs),
    (kinds.is_map, _join_maps),
    (kinds.is_union, _join_unions),
    (_is_list, _join_lists),
)
