"""Definitions to bytes and back, and what they may become as values grow wider."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.nulls import nulls
from quiver.errors import DamagedEntry, InputError
from quiver.ipc import decode_stream, encode_stream
from quiver.promote import union_schema
from quiver.schemas import same_schema, same_type
from quiver.upsert.persist.soundness import BUCKETS_MAX
from quiver.upsert.rows import Definition, plain_schema

__all__ = ["check_definition", "decode_schema", "encode_schema", "no_rows", "widen"]

_INT_BITS_MAX: Final = {16: 8, 32: 16, 64: 32}
"""How many bits of an integer a float of so many bits keeps, of those that integers have."""


def check_definition(definition: Definition) -> Definition:
    """Give a definition as it is kept: plain types that may be null, no metadata.

    Raises InputError for one by which nothing can be kept.
    """
    if not 1 <= definition.buckets <= BUCKETS_MAX:
        raise InputError(f"{definition.buckets} buckets: a collection has 1 to {BUCKETS_MAX:,}")
    for what, schema in (("key", definition.key), ("value", definition.value)):
        names = schema.names
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise InputError(f"column {repeated!r} is in the {what} twice")
        if not names and what == "key":
            raise InputError("a collection needs a key", hint="name one column at least")
        encode_schema(plain_schema(schema))
    return Definition(
        plain_schema(definition.key), plain_schema(definition.value), definition.buckets
    )


def encode_schema(schema: pa.Schema) -> bytes:
    """Write a schema as a stream of one batch without rows."""
    try:
        return encode_stream(no_rows(schema)).to_pybytes()
    except pa.ArrowException as error:
        raise InputError(f"a schema cannot be kept: {error}") from error


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch without rows; pyarrow's own knows no extension types inside of others."""
    empty: Any = [nulls(0, kind) for kind in schema.types]
    return pa.RecordBatch.from_arrays(empty, schema=schema)


def decode_schema(data: bytes) -> pa.Schema:
    """Read a schema that ``encode_schema`` wrote; raises DamagedEntry."""
    schema = decode_stream(data, rows=0).schema
    names = schema.names
    if len(set(names)) < len(names):
        raise DamagedEntry("a schema has a column twice")
    try:
        is_plain = same_schema(plain_schema(schema), schema)
    except InputError as error:
        raise DamagedEntry(f"a schema is none of a collection: {error.message}") from error
    if not is_plain:
        raise DamagedEntry("a schema has types under which no collection keeps rows", found=schema)
    return schema


def widen(definition: Definition, value: pa.Schema) -> Definition:
    """Give the definition whose value holds what it held, and rows of ``value`` as well.

    Raises InputError that names the column where there is none, or where a value that is kept
    could not be read under the wider type.
    """
    if same_schema(definition.value, value):
        return definition
    wider = union_schema([definition.value, plain_schema(value)])
    for field in definition.value:
        if not _holds_all(field.type, wider.field(field.name).type):
            raise InputError(
                f"column {field.name!r} is {field.type} and cannot become "
                f"{wider.field(field.name).type}: not every value could",
                hint="cast it before it gets here, or write it to a new column",
            )
    if same_schema(definition.value, wider):
        return definition
    return Definition(definition.key, wider, definition.buckets)


def _holds_all(narrow: Any, wide: Any) -> bool:  # noqa: ANN401
    """Whether each value of one type is a value of the other; False where that is not sure."""
    if same_type(narrow, wide) or kinds.is_null(narrow):
        return True
    if kinds.is_struct(narrow) and kinds.is_struct(wide):
        return all(
            _holds_all(child.type, wide.field(child.name).type)
            for child in (narrow.field(index) for index in range(narrow.num_fields))
        )
    if kinds.is_map(narrow) and kinds.is_map(wide):
        return _holds_all(narrow.key_type, wide.key_type) and _holds_all(
            narrow.item_type, wide.item_type
        )
    if kinds.is_nested(narrow) or kinds.is_nested(wide):
        both = hasattr(narrow, "value_type") and hasattr(wide, "value_type")
        return both and _holds_all(narrow.value_type, wide.value_type)
    if kinds.is_floating(wide):
        if kinds.is_integer(narrow):
            return bool(narrow.bit_width <= _INT_BITS_MAX.get(wide.bit_width, 0))
        return bool(kinds.is_floating(narrow))
    # The finer unit of a time or a duration has no room for all of what the coarser one has.
    coarse = kinds.is_timestamp(narrow) or kinds.is_duration(narrow)
    return not (coarse and narrow.unit != wide.unit)
