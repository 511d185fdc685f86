"""Spark's types to the ones that a store gets from them; the way back is ``quiver.spark.schema``.

All columns and children become nullable, so that a query that knows of no nulls and one that does
write the same schema. The same rules hold inside structs, arrays and maps.

==============================  ====================================================================
Spark                           stored as
==============================  ====================================================================
BOOLEAN, FLOAT, DOUBLE          bool, float32, float64
TINYINT .. BIGINT               int8 .. int64
DECIMAL(p,s)                    decimal128(p,s)
STRING, VARCHAR(n), CHAR(n)     utf8; comes back as STRING, without a length or a collation
BINARY, DATE                    binary, date32
TIMESTAMP                       timestamp[us, UTC]: the same instant, whatever the session's zone
TIMESTAMP_NTZ                   timestamp[us]
TIME(p)                         time64[ns]; comes back as TIME(6)
INTERVAL DAY TO SECOND          duration[us], also of fewer fields, such as INTERVAL HOUR
VOID                            null
ARRAY, STRUCT, MAP              list, struct, map
VARIANT                         refused: parse or cast it, to_json(v) for one
INTERVAL YEAR TO MONTH          refused: Spark hands no such column to Python
INTERVAL, user-defined, others  refused
==============================  ====================================================================
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as t

from quiver.casts.nested import DataType
from quiver.errors import InputError
from quiver.promote import union_schema
from quiver.spark.schema import arrow_schema

__all__ = ["check_fits", "stored_schema"]

_LEAVES: Final = (
    t.BooleanType,
    t.ByteType,
    t.ShortType,
    t.IntegerType,
    t.LongType,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.StringType,
    t.BinaryType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.DayTimeIntervalType,
    t.NullType,
)
_TIME: Final = "TimeType"
"""Spark has it since 4.1."""


def stored_schema(schema: t.StructType) -> pa.Schema:
    """Give the Arrow schema that rows of a Spark schema are stored under.

    Raises InputError that names the column whose type is refused.
    """
    if not schema.fields:
        raise InputError("there is no column to write")
    for field in schema.fields:
        if (wrong := _refused(field.dataType)) is not None:
            raise InputError(
                f"column {field.name!r} is {field.dataType.simpleString()}: {wrong}",
                hint="cast it, or leave it out: df.drop(...); the table of types is in "
                "quiver.spark.sink_schema",
            )
    names = schema.fieldNames()
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"column {twice!r} is there twice", hint="rename one of them")
    loose = t.StructType([t.StructField(field.name, field.dataType) for field in schema])
    return pa.schema([pa.field(f.name, _nullable(f.type)) for f in arrow_schema(loose)])


def check_fits(stored: pa.Schema, asked: pa.Schema) -> None:
    """Raise InputError if a reader of the slot could not have both as one table.

    Each column by itself, so that the message can name it.
    """
    for field in asked:
        if field.name not in stored.names:
            continue
        known = stored.field(field.name)
        try:
            union_schema([pa.schema([known]), pa.schema([field])])
        except InputError as error:
            raise InputError(
                f"column {field.name!r} is {field.type}, and {known.type} in the store: {error}",
                hint="cast it to the type of the store, or write it under another name or slot",
            ) from error


def _refused(kind: t.DataType) -> str | None:
    """Say why a type cannot be stored; None if it can."""
    if isinstance(kind, t.ArrayType):
        return _refused(kind.elementType)
    if isinstance(kind, t.MapType):
        return _refused(kind.keyType) or _refused(kind.valueType)
    if isinstance(kind, t.StructType):
        names = kind.fieldNames()
        if not names or len(set(names)) != len(names):
            return "a struct needs fields, each with a name of its own"
        found = (_refused(field.dataType) for field in kind.fields)
        return next((wrong for wrong in found if wrong is not None), None)
    if isinstance(kind, _LEAVES) or type(kind).__name__ == _TIME:
        return None
    return f"{kind.typeName()} has no Arrow type that would come back as it was"


def _nullable(kind: DataType) -> DataType:
    """Give a type whose children are all nullable and have no metadata."""
    if kinds.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if kinds.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in fields])
    return kind
