"""Arrow types to the ones that Spark takes from a Python data source, and values along with them.

Spark compares each batch with its own rendering of the schema, type by type, and refuses the rest.
All columns and children are nullable. The same rules hold inside structs, lists and maps.

================================  ==================================================================
Arrow                             Spark
================================  ==================================================================
bool, int8 .. int64, floats       as they are; float16 as FLOAT
uint8, uint16, uint32             SMALLINT, INT, BIGINT
uint64                            DECIMAL(20,0)
decimal of up to 38 digits        DECIMAL; a negative scale becomes 0
decimal of more digits            STRING
utf8, large, view                 STRING
binary, large, view, fixed size   BINARY
date32, date64                    DATE
timestamp without zone            TIMESTAMP_NTZ, nanoseconds floored to microseconds
timestamp with a zone             TIMESTAMP (the same instant), floored likewise
time32, time64                    TIME(6), floored likewise; see below
duration                          INTERVAL DAY TO SECOND, floored likewise
month-day-nano interval           STRUCT<months: INT, days: INT, nanoseconds: BIGINT>
null                              VOID
dictionary, run-end encoded       their value type
struct, map                       STRUCT, MAP
list, large, view, fixed size     ARRAY
extension                         its storage; bool8 as BOOLEAN
union, other intervals            none: leave the column out
================================  ==================================================================

TIME is new in Spark: most that is done with such a column, ``count()`` and writing it among them,
fails with UNSUPPORTED_TIME_TYPE unless ``spark.sql.timeType.enabled`` is ``true``. The sessions of
``quiver.spark.session`` have it set; in one of your own set it, or leave the column out.

With ``nanoseconds="int64"`` timestamps, durations and times of that unit are BIGINT instead, so
that no digit is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from quiver.casts.conform import CAST_FAULTS
from quiver.casts.nested import Array, Conversion, DataType, convert, repeated_child
from quiver.casts.nulls import nulls
from quiver.errors import InputError

__all__ = ["Nanoseconds", "arrow_schema", "to_spark", "to_spark_all", "to_spark_schema"]

Nanoseconds: TypeAlias = Literal["us", "int64"]
"""What becomes of times finer than Spark's microseconds: floored, or kept as a number."""

_DIGITS_MAX: Final = 38
_PER_MICROSECOND: Final = 1000
_BOOL8: Final = "arrow.bool8"
_INTERVAL: Final = pa.struct(
    [("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())]
)
_INTERVAL_BYTES: Final = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])

_RENAMED: Final[dict[DataType, DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.month_day_nano_interval(): _INTERVAL,
}
_KEPT: Final = {
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}


def to_spark_schema(schema: pa.Schema, *, nanoseconds: Nanoseconds = "us") -> StructType:
    """Give the Spark schema of Arrow data; raises InputError that names a column without one."""
    fields = []
    for field in schema:
        kind = _target(field.type, nanoseconds)
        if kind is None:
            raise InputError(
                f"column {field.name!r} is {field.type}, for which Spark has no type",
                hint="leave it out with the option columns, or read it with quiver.scan",
            )
        name = repeated_child(field.type)
        if name is not None:
            raise InputError(
                f"column {field.name!r} has structs with {name!r} twice: Spark cannot tell which "
                "is meant",
                hint="leave it out with the option columns, or read it with quiver.scan",
            )
        if schema.names.count(field.name) > 1:
            raise InputError(
                f"column {field.name!r} is there twice: Spark cannot tell which is meant"
            )
        fields.append(pa.field(field.name, kind))
    return from_arrow_schema(pa.schema(fields))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Give the Arrow schema that batches for this Spark schema must have, to the letter."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Give the rows of ``batch`` as ``target``, which ``arrow_schema`` made.

    Columns are taken by name; one that is missing is null. Raises InputError that names the column
    if a value is beyond Spark's range, or is null where ``target`` allows none.
    """
    if not len(target):
        return batch.select([])
    if _is_handed_on(target) and batch.schema.equals(target, check_metadata=True):
        return batch
    arrays = [_column(batch, field) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def to_spark_all(target: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Give what does ``to_spark`` to one batch after the other, most of which are ready."""
    is_handed_on = _is_handed_on(target)

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
        if is_handed_on and batch.schema.equals(target, check_metadata=True):
            return batch
        return to_spark(batch, target)

    return finish


def _is_handed_on(target: pa.Schema) -> bool:
    """Whether batches of this very schema may be handed over as they are, which most are.

    What has children is looked at by column: to Arrow their types are equal that are not the same.
    """
    return all(
        field.nullable and not field.type.num_fields and not _is_finer_time(field.type)
        for field in target
    )


def _missing(rows: int, field: DataType) -> Array:
    try:
        return nulls(rows, field.type)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {field.name!r} is missing: {error}") from error


def _column(batch: pa.RecordBatch, field: DataType) -> Array:
    if field.name in batch.schema.names:
        array: Array = batch.column(field.name)
    else:
        array = _missing(batch.num_rows, field)
    try:
        converted = convert(array, field.type, _SPARK)
    except CAST_FAULTS as error:
        raise InputError(
            f"column {field.name!r}: a value of {array.type} is beyond Spark's range: {error}"
        ) from error
    if converted.null_count and not field.nullable:
        raise InputError(
            f"column {field.name!r} has nulls and was asked for as NOT NULL",
            hint="leave NOT NULL out of the schema",
        )
    return converted


def _target(kind: DataType, nanoseconds: Nanoseconds) -> DataType | None:
    """Give the Arrow type that Spark takes for one; None if there is none."""
    if kind in _KEPT:
        return kind
    if kind in _RENAMED:
        return _RENAMED[kind]
    if kinds.is_decimal(kind):
        return _decimal(kind)
    if kinds.is_temporal(kind):
        return _time(kind, nanoseconds)
    if kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        return _target(kind.value_type, nanoseconds)
    if isinstance(kind, pa.BaseExtensionType):
        is_bool = getattr(kind, "extension_name", "") == _BOOL8
        return pa.bool_() if is_bool else _target(kind.storage_type, nanoseconds)
    return _nested(kind, nanoseconds)


def _decimal(kind: DataType) -> DataType:
    precision, scale = kind.precision, kind.scale
    if scale < 0:
        precision, scale = precision - scale, 0
    # Spark wants all digits of the fraction to count as digits.
    precision = max(precision, scale)
    return pa.decimal128(precision, scale) if precision <= _DIGITS_MAX else pa.string()


def _time(kind: DataType, nanoseconds: Nanoseconds) -> DataType | None:
    if getattr(kind, "unit", "") == "ns" and nanoseconds == "int64":
        return pa.int64()
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    if kinds.is_time(kind):
        return pa.time64("ns")
    return pa.duration("us") if kinds.is_duration(kind) else None


def _nested(kind: DataType, nanoseconds: Nanoseconds) -> DataType | None:
    names = [kind.field(index).name for index in range(kind.num_fields)]
    if kinds.is_map(kind):
        key, item = _target(kind.key_type, nanoseconds), _target(kind.item_type, nanoseconds)
        return None if key is None or item is None else pa.map_(key, item)
    children: list[Any] = [
        _target(kind.field(index).type, nanoseconds) for index in range(len(names))
    ]
    if kinds.is_union(kind) or not children or any(child is None for child in children):
        return None
    if kinds.is_struct(kind):
        return pa.struct(list(zip(names, children, strict=True)))
    return pa.list_(children[0])


def _leaf(array: Array, kind: DataType) -> Array:
    source = array.type
    if kinds.is_struct(kind):
        return _split_interval(array)
    if getattr(source, "unit", "") == "ns":
        numbers = array.view(pa.int64())
        if kinds.is_integer(kind):
            return numbers
        microseconds = _floor(numbers)
        if kinds.is_time(kind):  # TIME is handed over in nanoseconds, but of microseconds only.
            microseconds = pc.multiply(microseconds, _PER_MICROSECOND)
        return microseconds.view(kind)
    return array.cast(kind)


def _floor(numbers: Array) -> Array:
    """Divide by 1000 towards the past; Arrow's own division goes towards 1970."""
    quotient: Array = pc.divide(numbers, _PER_MICROSECOND)
    above: Any = pc.greater(pc.multiply(quotient, _PER_MICROSECOND), numbers)
    return pc.subtract(quotient, above.cast(pa.int64()))


def _split_interval(array: Array) -> Array:
    """Give an interval's three numbers as a struct; Arrow has no cast for it."""
    data = array.buffers()[1]
    items = np.frombuffer(data, _INTERVAL_BYTES, count=len(array), offset=array.offset * 16)
    children = [pa.array(np.ascontiguousarray(items[field.name])) for field in _INTERVAL]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(_INTERVAL), mask=mask)


def _is_finer_time(kind: DataType) -> bool:
    return kinds.is_time64(kind) and kind.unit == "ns"


_SPARK: Final = Conversion(_leaf, changes=_is_finer_time)
