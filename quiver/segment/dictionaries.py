"""Dictionaries of a stream: united over its chunks, written with the narrowest index that fits.

An Arrow file holds one dictionary for each place of its schema, while chunks come with one each.
So for each place, however deep, the chunks' dictionaries become one vocabulary and their indices
are written anew; values do not change. Where a vocabulary is full, by configuration or because the
declared index type tells no more words apart, the next chunk begins another stream. One chunk
alone always fits, whatever its dictionaries are.

What is stored may thus have a narrower index type than what was declared; ``restore`` gives a
batch back as it was declared. Dictionaries inside of dictionaries, and those in the storage of
extension types, keep their index type: whoever knows such a type may insist on its storage.

All arrays here come out of Arrow bytes: none of them is a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, InputError
from quiver.ipc import ARROW_FAULTS, check_schema
from quiver.schemas import (
    Field,
    Kind,
    change_children,
    child_fields,
    equal_is_same,
    is_extension,
    same_schema,
    same_type,
)
from quiver.segment.tables import Column
from quiver.segment.vocabulary import Numbers, United, Vocabulary, divide

__all__ = [
    "UnitedChunks",
    "addressable",
    "holds_dictionary",
    "narrow_index",
    "other_types",
    "read_declared",
    "restore",
    "restore_table",
    "unite",
]

_SIGNED: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED: Final = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())

Leaf = Callable[[Column, Kind], Column]


@dataclass(frozen=True, slots=True)
class UnitedChunks:
    """Batches that can be written as one file: which chunks they are, and under which schema."""

    chunks: range
    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class _Place:
    """A dictionary somewhere in a column; ``narrow`` if its index type may change."""

    kind: Kind
    narrow: bool

    def stored_index(self, word_count: int) -> Kind:
        return narrow_index(self.kind, word_count) if self.narrow else self.kind.index_type


def unite(
    schema: pa.Schema, batches: Sequence[pa.RecordBatch], *, cardinality: int
) -> list[UnitedChunks]:
    """Divide batches of one schema into streams and give each one dictionary for each place.

    ``cardinality`` is how many words a vocabulary may have, unless a single batch brings more.
    Streams are filled in the order of the batches.
    """
    columns = {
        index: places for index, field in enumerate(schema) if (places := _places(field, True))
    }
    if not columns:
        return [UnitedChunks(range(len(batches)), schema, batches)]
    found = {index: _Dictionaries(batches, index, columns[index]) for index in columns}
    vocabularies = [each for column in found.values() for each in column.vocabularies]
    return [
        _stream(schema, batches[chunks.start : chunks.stop], chunks, found=found)
        for chunks in divide(vocabularies, len(batches), cardinality)
    ]


class _Dictionaries:
    """The dictionary arrays of one column, by place and chunk."""

    def __init__(
        self, batches: Sequence[pa.RecordBatch], index: int, places: Sequence[_Place]
    ) -> None:
        arrays: list[Column] = [batch.column(index) for batch in batches]
        flat = isinstance(arrays[0], pa.DictionaryArray)
        found = [arrays] if flat else list(zip(*map(_leaves, arrays), strict=True))
        self.places = places
        self.indices = [[leaf.indices for leaf in leaves] for leaves in found]
        self.vocabularies = [
            Vocabulary(
                [leaf.dictionary for leaf in leaves],
                ordered=place.kind.ordered,
                addressable=addressable(place.kind.index_type),
            )
            for place, leaves in zip(places, found, strict=True)
        ]


def _stream(
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    chunks: range,
    *,
    found: dict[int, _Dictionaries],
) -> UnitedChunks:
    columns = [list(batch.columns) for batch in batches]
    fields = list(schema)
    for index, column in found.items():
        united = [each.unite(chunks) for each in column.vocabularies]
        types = [
            place.stored_index(len(each.words))
            for place, each in zip(column.places, united, strict=True)
        ]
        kind = _with_indices(fields[index].type, iter(types))
        if not same_type(kind, fields[index].type):
            fields[index] = fields[index].with_type(kind)
        leaves = [
            _rewritten(indices[chunks.start : chunks.stop], place, each)
            for indices, place, each in zip(column.indices, column.places, united, strict=True)
        ]
        for row, new in zip(columns, zip(*leaves, strict=True), strict=True):
            row[index] = _rebuild(row[index], kind, _in_turn(new))
    metadata: Any = schema.metadata
    stored = pa.schema(fields, metadata)
    ready = [pa.RecordBatch.from_arrays(arrays, schema=stored) for arrays in columns]
    return UnitedChunks(chunks, stored, ready)


def restore(
    batch: pa.RecordBatch, declared: pa.Schema, places: Sequence[int] | None = None
) -> pa.RecordBatch:
    """Give a batch that was stored with narrower indices under the schema that was declared.

    ``declared`` has the batch's columns, in its order, as ``read_declared`` checked; ``places`` are
    those whose types differ, if the caller knows. Indices there are copied; all else is shared with
    ``batch``, which comes back as it is if nothing differs.
    """
    if places is None:
        if same_schema(batch.schema, declared):
            return batch
        places = other_types(batch.schema, declared)
    arrays = list(batch.columns)
    for place in places:
        arrays[place] = _rebuild(arrays[place], declared.field(place).type, _widened)
    return pa.RecordBatch.from_arrays(arrays, schema=declared)


def other_types(stored: pa.Schema, declared: pa.Schema) -> list[int]:
    """List the columns whose types differ."""
    return [
        place
        for place, (one, other) in enumerate(zip(stored, declared, strict=True))
        if not same_type(one.type, other.type)
    ]


def restore_table(table: pa.Table, declared: pa.Schema) -> pa.Table:
    """Give all chunks of a stream under the schema that was declared, as ``restore`` does for one.

    All of them have the same dictionaries, as in any Arrow file. The first column keeps its chunks,
    so that it shows where each ends; others are in one if their indices had to be copied.
    """
    for place, field in enumerate(declared):
        column = table.column(place)
        if same_type(column.type, field.type):
            continue
        restored = _restored_column(column, field.type)
        if place == 0:
            restored = _split(restored, list(map(len, column.chunks)))
        table = table.set_column(place, field, restored)  # A table made anew would be looked over.
    return table


def _restored_column(column: Column, kind: Kind) -> Column:
    join: Any = pa.chunked_array
    if not column.num_chunks or not kinds.is_dictionary(kind):
        return join([_rebuild(chunk, kind, _widened) for chunk in column.chunks], kind)
    if equal_is_same(kind.value_type):
        return join([_widened(column.combine_chunks(), kind)], kind)
    # To whatever joins chunks, two NaNs are no reason to think that dictionaries are the same.
    indices = pa.concat_arrays([chunk.indices for chunk in column.chunks])
    return join([_widened(_dictionary(indices, column.chunk(0).dictionary, kind), kind)], kind)


def _split(column: Column, lengths: list[int]) -> Column:
    """Give a column with chunks of these lengths; it has them already, or is in one."""
    if column.num_chunks != 1:
        return column
    join: Any = pa.chunked_array
    starts = accumulate(lengths[:-1], initial=0)
    return join(list(map(column.chunk(0).slice, starts, lengths)), column.type)


def read_declared(
    data: bytes, stored: pa.Schema, limits: LimitsConfig, *, validate: bool = True
) -> pa.Schema:
    """Read a serialized schema that was declared for data stored under ``stored``.

    Raises DamagedEntry unless it is the same schema but for indices that are wider; without
    ``validate``, for what was found good before, only if it is no schema.
    """
    try:
        declared = pa.ipc.read_schema(pa.py_buffer(data))
        if not validate:
            return declared
        check_schema(declared, limits)
    except (InputError, *ARROW_FAULTS) as error:
        raise DamagedEntry(f"a declared schema cannot be read: {error}") from error
    wide, narrow = (
        [place.kind.index_type for field in schema for place in _places(field, True)]
        for schema in (declared, stored)
    )
    same = same_schema(_erased(declared), _erased(stored))
    if not same or any(not _holds(w, n) for w, n in zip(wide, narrow, strict=True)):
        raise DamagedEntry("a declared schema is of another stream", expected=stored)
    return declared


def _holds(wide: Kind, narrow: Kind) -> bool:
    same_sign = kinds.is_signed_integer(wide) == kinds.is_signed_integer(narrow)
    return same_sign and wide.bit_width >= narrow.bit_width


def _erased(schema: pa.Schema) -> pa.Schema:
    """Give a schema with one and the same index type in all dictionaries that may be narrowed."""

    def erased(field: Field) -> Field:
        if is_extension(field):
            return field
        if isinstance(field.type, pa.DictionaryType):
            kind = pa.dictionary(pa.int8(), field.type.value_type, field.type.ordered)
            return field.with_type(kind)
        kind = change_children(field.type, erased)
        return field if kind is field.type else field.with_type(kind)

    metadata: Any = schema.metadata
    return pa.schema([erased(field) for field in schema], metadata)


def holds_dictionary(field: Field) -> bool:
    """Whether there is a dictionary anywhere in a column, in the storage of an extension too."""
    return bool(_places(field, narrow=False))


def _places(field: Field, narrow: bool) -> list[_Place]:  # noqa: FBT001
    """Find the dictionaries of a column, depth first; those inside of dictionaries do not count."""
    narrow = narrow and not is_extension(field)
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        return _places(pa.field("", kind.storage_type), narrow)
    if isinstance(kind, pa.DictionaryType):
        return [_Place(kind, narrow)]
    return [place for child in child_fields(kind) for place in _places(child, narrow)]


def _with_indices(kind: Kind, types: Iterator[Kind]) -> Kind:
    """Give a type with other index types, in the order of ``_places``."""
    if isinstance(kind, pa.DictionaryType):
        return pa.dictionary(next(types), kind.value_type, kind.ordered)
    if isinstance(kind, pa.BaseExtensionType):
        _with_indices(kind.storage_type, types)  # They stay as they are, and are passed over.
        return kind

    def changed(field: Field) -> Field:
        inner = _with_indices(field.type, types)
        return field if same_type(inner, field.type) else field.with_type(inner)

    return change_children(kind, changed)


def _leaves(array: Column) -> list[Column]:
    """Give the dictionary arrays of a column, in the order of ``_places``."""
    found: list[Column] = []

    def keep(leaf: Column, _kind: Kind) -> Column:
        found.append(leaf)
        return leaf

    _rebuild(array, array.type, keep)
    return found


def _rebuild(array: Column, kind: Kind, leaf: Leaf) -> Column:
    """Put an array together as ``kind``, each dictionary array in it replaced by ``leaf`` of it."""
    if isinstance(kind, pa.DictionaryType):
        return leaf(array, kind)
    if isinstance(kind, pa.BaseExtensionType):
        storage = _rebuild(array.storage, kind.storage_type, leaf)
        return array if storage is array.storage else pa.ExtensionArray.from_storage(kind, storage)
    if not _places(pa.field("", kind), narrow=False):
        return array
    children = [
        _rebuild(child, field.type, leaf)
        for child, field in zip(_children(array), child_fields(kind), strict=True)
    ]
    if kinds.is_map(kind):
        fields = child_fields(kind)
        children = [pa.StructArray.from_arrays(children, fields=fields)]
    elif isinstance(kind, pa.RunEndEncodedType):
        children = [array.run_ends, *children]
    own = array.buffers()[: kind.num_buffers]
    return pa.Array.from_buffers(kind, len(array), own, array.null_count, children=children)


def _children(array: Column) -> list[Column]:
    """Give the arrays directly inside, in the order of ``child_fields``."""
    kind = array.type
    if kinds.is_map(kind):
        return [array.keys, array.items]
    if kinds.is_struct(kind) or kinds.is_union(kind):
        return [array.field(index) for index in range(kind.num_fields)]
    return [array.values]


def _in_turn(arrays: Sequence[Column]) -> Leaf:
    turn = iter(arrays)
    return lambda _array, _kind: next(turn)


def _widened(array: Column, kind: Kind) -> Column:
    if same_type(array.type, kind):
        return array
    indices = array.indices.cast(kind.index_type, safe=False)  # Into Arrow's pool: it is warm.
    return _dictionary(indices, array.dictionary, kind)


def _dictionary(indices: Column, words: Column, kind: Kind) -> Column:
    return pa.DictionaryArray.from_arrays(indices, words, ordered=kind.ordered, safe=False)


def _rewritten(indices: Sequence[Column], place: _Place, united: United) -> list[Column]:
    """Give the dictionary arrays of all chunks of a stream at one place."""
    whole = indices[0] if len(indices) == 1 else pa.concat_arrays(indices)
    index_type = place.stored_index(len(united.words))
    lengths = [len(each) for each in indices]
    if united.table is not None:
        bases = np.repeat(united.bases, lengths)
        whole = _translated(whole, index_type, united.table, bases=bases)
    elif whole.type != index_type:
        whole = whole.cast(index_type, safe=False)
    every = _dictionary(whole, united.words, place.kind)
    ends = accumulate(lengths)
    return [every.slice(end - length, length) for end, length in zip(ends, lengths, strict=True)]


def _translated(whole: Column, kind: Kind, table: Numbers, *, bases: Numbers) -> Column:
    """Look each index up in the table; what stands in place of a null may be any number."""
    validity, data = whole.buffers()
    dtype: Any = whole.type.to_pandas_dtype()
    places = np.frombuffer(data, dtype, len(whole)).astype(np.int64)
    places += bases
    found = np.take(table.astype(kind.to_pandas_dtype()), places, mode="clip")
    return pa.Array.from_buffers(kind, len(whole), [validity, pa.py_buffer(found.data)])


def narrow_index(kind: Kind, word_count: int) -> Kind:
    """Give the narrowest index type of a dictionary's kind for so many words, of the same sign."""
    declared = kind.index_type
    family = _SIGNED if kinds.is_signed_integer(declared) else _UNSIGNED
    fitting = (each for each in family if word_count <= addressable(each))
    found = next(fitting, declared)
    return found if found.bit_width < declared.bit_width else declared


def addressable(kind: Kind) -> int:
    """How many words an index type tells apart."""
    return 1 << (kind.bit_width - kinds.is_signed_integer(kind))
