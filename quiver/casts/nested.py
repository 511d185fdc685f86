"""Take a column of nested type apart, convert its leaves, and put it together again.

Arrow's own cast does not know every pair of nested types that drift brings up: structs with other
children, lists of such, views, fixed sizes. What is done with a leaf is the caller's affair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.nulls import nulls
from quiver.casts.picking import rows_at
from quiver.ipc import child_types
from quiver.promote import is_void
from quiver.schemas import same_type

__all__ = ["Array", "Conversion", "DataType", "convert", "decode", "repeated_child"]

Array: TypeAlias = Any
DataType: TypeAlias = Any
"""Arrow's own; its stubs know them only as generics of the values inside."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What happens to the leaves: ``leaf`` turns an array of one childless type into another's.

    ``changes`` says of a type that its values change even where source and target are the same.
    """

    leaf: Callable[[Array, DataType], Array]
    changes: Callable[[DataType], bool] = lambda _kind: False


_OFFSET_MAX: Final = (1 << 31) - 1


def convert(array: Array, kind: DataType, how: Conversion) -> Array:
    """Give ``array`` as ``kind``; dictionaries, run-ends and extensions are taken off on the way.

    Children that are missing become null. Where types are equal the array comes back as it is,
    unless ``how`` changes it. Raises what the leaf's conversion raises, and ArrowException.
    """
    if same_type(array.type, kind) and not _changes(kind, how):
        return array
    if is_void(array.type):
        return nulls(len(array), kind)
    if isinstance(kind, pa.DictionaryType) and isinstance(array.type, pa.DictionaryType):
        return _convert_dictionary(array, kind, how)
    plain = decode(array)
    if plain is not array:
        return convert(plain, kind, how)
    if kinds.is_struct(kind) and kinds.is_struct(array.type):
        return _convert_struct(array, kind, how)
    if kinds.is_map(kind):
        return _convert_map(array, kind, how)
    if kinds.is_fixed_size_list(kind):
        return _convert_fixed_list(array, kind, how)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _convert_list(array, kind, how)
    return how.leaf(array, kind)


def _changes(kind: DataType, how: Conversion) -> bool:
    if kind.num_fields:
        return any(_changes(kind.field(index).type, how) for index in range(kind.num_fields))
    return how.changes(kind)


def decode(array: Array) -> Array:
    """Give the plain values under dictionaries, runs and extension types."""
    while True:
        if isinstance(array, pa.DictionaryArray):
            array = _looked_up(array)
        elif isinstance(array, pa.RunEndEncodedArray):
            array = _spread(array)
        elif isinstance(array, pa.ExtensionArray):
            array = array.storage
        else:
            return array


def _looked_up(array: Array) -> Array:
    """Give the value of each index of a dictionary array."""
    values = decode(array.dictionary)
    return _taken(values, array.indices)


def _taken(values: Array, places: Array) -> Array:
    """Take values by their places, null for null.

    Not by Arrow's ``take`` where views of text lie inside of other types: it loses their bytes.
    """
    if not _holds_views(values.type):
        try:
            return rows_at(values, places)
        except pa.ArrowNotImplementedError:
            pass  # Of views, for instance.
    return _take(values, places.to_pylist())


def _holds_views(kind: DataType) -> bool:
    view = kinds.is_string_view(kind) or kinds.is_binary_view(kind)
    return view or any(map(_holds_views, child_types(kind)))


def _take(values: Array, places: list[int | None]) -> Array:
    """Take values of types that Arrow's own ``take`` does not know: views, and what holds them."""
    kind = values.type
    text = pa.large_string() if kinds.is_string_view(kind) else pa.large_binary()
    if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        return values.cast(text).take(pa.array(places, pa.int64())).cast(kind)
    empty = nulls(1, kind) if None in places else values[:0]
    pieces = [empty if place is None else values.slice(place, 1) for place in places]
    return pa.concat_arrays([values[:0], *pieces])


def _spread(array: Array) -> Array:
    """Repeat each value of a run-end encoded array as often as its run is long."""
    try:
        return pc.call_function("run_end_decode", [array])
    except pa.ArrowNotImplementedError:  # Of views and dictionaries, for instance.
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(array.run_ends.to_numpy(), rows, side="right")
        return _taken(decode(array.values), pa.array(runs))


def repeated_child(kind: DataType) -> str | None:
    """Find a name that two children of one struct share, at any depth; None if there is none."""
    todo = [kind]
    while todo:
        inner = todo.pop()
        if kinds.is_struct(inner):
            names = Counter(inner.field(index).name for index in range(inner.num_fields))
            for name, times in names.items():
                if times > 1:
                    return name
        todo += child_types(inner)
    return None


def _convert_dictionary(array: Array, kind: DataType, how: Conversion) -> Array:
    values = convert(array.dictionary, kind.value_type, how)
    indices = array.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered, safe=False)


def _convert_struct(array: Array, kind: DataType, how: Conversion) -> Array:
    children = []
    names = [field.name for field in array.type]
    for field in kind:
        index = array.type.get_field_index(field.name)
        if names.count(field.name) > 1:  # To Arrow that is the same as none.
            raise pa.ArrowInvalid(f"a struct has {field.name!r} twice")
        if index < 0:
            children.append(nulls(len(array), field.type))
        else:
            children.append(convert(array.field(index), field.type, how))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))


def _convert_map(array: Array, kind: DataType, how: Conversion) -> Array:
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    keys = convert(array.keys[first:last], kind.key_type, how)
    items = convert(array.items[first:last], kind.item_type, how)
    offsets = pc.subtract(offsets, offsets[0])
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=_mask(array))


def _convert_fixed_list(array: Array, kind: DataType, how: Conversion) -> Array:
    size = kind.list_size
    values = array.values[array.offset * size : (array.offset + len(array)) * size]
    child = convert(values, kind.value_type, how)
    # Not ``from_arrays``, which ends the process where the size is zero.
    valid = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(kind, len(array), [valid], children=[child])


def _convert_list(array: Array, kind: DataType, how: Conversion) -> Array:
    """Make offsets afresh, so that slices, views and fixed sizes need no case of their own."""
    child = convert(array.flatten(), kind.value_type, how)
    lengths: Array = pc.list_value_length(array)
    lengths = pc.fill_null(lengths, 0).cast(pa.int64())
    zero: Array = pa.array([0], pa.int64())
    offsets: Array = pa.concat_arrays([zero, pc.cumulative_sum(lengths)])
    large = kinds.is_large_list(kind)
    if not large and len(child) > _OFFSET_MAX:
        raise pa.ArrowInvalid(f"{len(child):,} list elements do not fit into one batch")
    maker: Any = pa.LargeListArray if large else pa.ListArray
    offsets = offsets if large else offsets.cast(pa.int32())
    return maker.from_arrays(offsets, child, type=kind, mask=_mask(array))


def _mask(array: Array) -> Array:
    return array.is_null() if array.null_count else None
