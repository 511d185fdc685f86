"""Schemas taken apart and put together: types with other children, metadata sorted or dropped.

Nothing here looks at data. Types in which nothing changes come back as they are, the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types as kinds

__all__ = [
    "change_children",
    "child_fields",
    "equal_is_same",
    "has_plain_types",
    "is_extension",
    "same_schema",
    "same_schema_as",
    "same_type",
    "sort_metadata",
    "strip_metadata",
]

Kind: TypeAlias = Any
Field: TypeAlias = Any
"""An Arrow type or field; pyarrow's stubs know them only as generics of their parameters."""

_EXTENSION_NAME: Final = b"ARROW:extension:name"
_EXTENSION_KEYS: Final = frozenset({_EXTENSION_NAME, b"ARROW:extension:metadata"})
"""What a field's metadata holds of an extension type that this process does not know."""


def child_fields(kind: Kind) -> list[Field]:
    """Give the fields directly inside a type; what is not called a field there has no name.

    A map has two, the values of dictionaries and of runs are one. Storage of an extension type is
    its own affair: there is nothing inside.
    """
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        return [pa.field("", kind.value_type)]
    if kinds.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(index) for index in range(kind.num_fields)]


def change_children(kind: Kind, change: Callable[[Field], Field]) -> Kind:
    """Give a type with ``change`` done to each field directly inside."""
    before = child_fields(kind)
    after = [change(field) for field in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return kind
    if isinstance(kind, pa.DictionaryType):
        return pa.dictionary(kind.index_type, after[0].type, kind.ordered)
    if isinstance(kind, pa.RunEndEncodedType):
        return pa.run_end_encoded(kind.run_end_type, after[0].type)
    if kinds.is_struct(kind):
        return pa.struct(after)
    if kinds.is_map(kind):
        return pa.map_(after[0], after[1], kind.keys_sorted)
    if kinds.is_union(kind):
        make = pa.sparse_union if kind.mode == "sparse" else pa.dense_union
        return make(after, kind.type_codes)
    if kinds.is_fixed_size_list(kind):
        return pa.list_(after[0], kind.list_size)
    return next(make for belongs, make in _LISTS if belongs(kind))(after[0])


_LISTS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...]] = (
    (kinds.is_list, pa.list_),
    (kinds.is_large_list, pa.large_list),
    (kinds.is_list_view, pa.list_view),
    (kinds.is_large_list_view, pa.large_list_view),
)


def same_type(one: Kind, other: Kind, *, check_metadata: bool = False) -> bool:
    """Whether two types are equal, to the last child.

    pyarrow's ``equals`` is not enough: to it, dictionaries whose values hold an extension type at
    some depth are equal whatever their index type, and so are runs of anything of the kind. And so
    are extension types of one class that was written in Python, whatever their parameters, and maps
    with an extension type in them, whether their values may be null or not.
    """
    if one is other:
        return True
    if not one.equals(other, check_metadata=check_metadata):
        return False
    if isinstance(one, pa.BaseExtensionType):
        return _same_parameters(one, other) and same_type(
            one.storage_type, other.storage_type, check_metadata=check_metadata
        )
    if isinstance(one, pa.DictionaryType):
        if one.index_type != other.index_type:
            return False
    elif not one.num_fields:
        return True
    return all(
        _same_field(ours, theirs, check_metadata=check_metadata)
        for ours, theirs in zip(child_fields(one), child_fields(other), strict=True)
    )


def _same_field(one: Field, other: Field, *, check_metadata: bool) -> bool:
    if one.nullable != other.nullable:
        return False
    if check_metadata and (one.name, one.metadata or {}) != (other.name, other.metadata or {}):
        return False
    return same_type(one.type, other.type, check_metadata=check_metadata)


def _same_parameters(one: Kind, other: Kind) -> bool:
    """Whether two equal extension types say the same of themselves; those of Arrow's own do."""
    if not isinstance(one, pa.ExtensionType) or not isinstance(other, pa.ExtensionType):
        return True
    ours, theirs = ((k.extension_name, k.__arrow_ext_serialize__()) for k in (one, other))
    return bool(ours == theirs)


def same_schema(one: pa.Schema, other: pa.Schema) -> bool:
    """Whether two schemas are equal, metadata and all, as ``same_type`` tells types."""
    if one is other:
        return True
    return one.equals(other, check_metadata=True) and all(
        same_type(ours, theirs, check_metadata=True)
        for ours, theirs in zip(one.types, other.types, strict=True)
    )


def same_schema_as(schema: pa.Schema) -> Callable[[pa.Schema], bool]:
    """Give what says whether others are the same as this one, sooner than ``same_schema`` does."""
    if has_plain_types(schema):
        return partial(schema.equals, check_metadata=True)
    return partial(same_schema, schema)


_EXACT: Final = (
    kinds.is_string,
    kinds.is_large_string,
    kinds.is_binary,
    kinds.is_large_binary,
    kinds.is_fixed_size_binary,
    kinds.is_integer,
    kinds.is_temporal,
)


def equal_is_same(kind: Kind) -> bool:
    """Whether equal values of a type are known to have equal bits, and each equals itself."""
    return any(is_exact(kind) for is_exact in _EXACT)


_PLAIN: Final = (
    *_EXACT,
    kinds.is_floating,
    kinds.is_decimal,
    kinds.is_boolean,
    kinds.is_null,
    kinds.is_string_view,
    kinds.is_binary_view,
)


def has_plain_types(schema: pa.Schema) -> bool:
    """Whether no type in a schema has children, but for dictionaries of values that have none.

    And for structs of such. Of such schemas ``equals`` says all there is: names, types, order,
    nullability, metadata.
    """
    return all(map(_is_plain, schema.types))


def _is_plain(kind: Kind) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if kinds.is_struct(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    return any(is_of(kind) for is_of in _PLAIN) and not isinstance(kind, pa.BaseExtensionType)


def is_extension(field: Field) -> bool:
    """Whether a field is of an extension type, known to this process or not."""
    if isinstance(field.type, pa.BaseExtensionType):
        return True
    return _EXTENSION_NAME in (field.metadata or {})


def sort_metadata(schema: pa.Schema) -> pa.Schema:
    """Give a schema with the keys of all its metadata in ascending order, and no empty metadata.

    To pyarrow both are equal. What is in the storage of extension types is left as it is.
    """
    return _change_metadata(schema, _sorted)


def strip_metadata(schema: pa.Schema) -> pa.Schema:
    """Give a schema without metadata, at any depth, but for what names an extension type."""
    return _change_metadata(schema, _extension_alone)


def _change_metadata(schema: pa.Schema, change: Callable[[Any], Any]) -> pa.Schema:
    def changed(field: Field) -> Field:
        kind = change_children(field.type, changed)
        metadata = change(field.metadata)
        if kind is field.type and _same(metadata, field.metadata):
            return field
        # Not a new field: pyarrow makes none of the null type that is not nullable, but reads it.
        bare = field.with_type(kind).remove_metadata()
        return bare.with_metadata(metadata) if metadata else bare

    before = list(schema)
    fields = [changed(field) for field in before]
    metadata = change(schema.metadata)
    unchanged = all(new is old for new, old in zip(fields, before, strict=True))
    if unchanged and _same(metadata, schema.metadata):
        return schema
    return pa.schema(fields, metadata=metadata)


def _same(left: Any, right: Any) -> bool:  # noqa: ANN401
    """Whether metadata has the same keys and values in the same order."""
    return left is right or (
        left is not None and right is not None and list(left.items()) == list(right.items())
    )


def _sorted(metadata: Any) -> Any:  # noqa: ANN401
    return dict(sorted(metadata.items())) if metadata else None


def _extension_alone(metadata: Any) -> Any:  # noqa: ANN401
    kept = {key: value for key, value in (metadata or {}).items() if key in _EXTENSION_KEYS}
    return kept or None
