"""Filters that Spark offers, as expressions over the stored columns.

They are for leaving out what cannot pass: chunks by their statistics, and rows. Spark is told of
none that it is done, and tries them all again; so an expression may let too many rows through, and
must never hold one back. A filter that cannot be said exactly enough is left to Spark alone:

* of floats ``>`` and ``>=``, for to Spark NaN is greater than all numbers and to Arrow it is not;
* of nested columns, of columns whose stored type is none of those below;
* of values that are not of the column's own kind.

Spark sees times in microseconds, floored from nanoseconds. So a comparison with a time is one with
all the nanoseconds of that microsecond.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds
from pyspark.sql import datasource as s

from quiver.errors import InputError
from quiver.scan.rows import check_fits
from quiver.segment.bounds import value_type

__all__ = ["exact_value", "expression"]

Expression: TypeAlias = Any
Value: TypeAlias = Any

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_IN_MAX: Final = 1000
_I64: Final = (-(1 << 63), (1 << 63) - 1)


def expression(filters: Iterable[Any], schema: pa.Schema) -> Expression | None:
    """Say what rows of ``schema``, the stored types, must satisfy; None if nothing can be said."""
    whole: Expression | None = None
    for one in filters:
        said = _say(one, schema)
        if said is not None and _fits(said, schema):
            whole = said if whole is None else whole & said
    return whole


def exact_value(kind: Any, value: Value) -> Any | None:  # noqa: ANN401
    """Give the one stored value of a type that Spark sees as ``value``; None if not just one is."""
    bounds = _bounds(kind, value)
    return bounds[0] if bounds is not None and bounds[0].equals(bounds[1]) else None


def _fits(said: Expression, schema: pa.Schema) -> bool:
    """Whether Arrow can try it on these types."""
    try:
        check_fits(said, schema)
    except InputError:
        return False
    return True


def _say(one: Any, schema: pa.Schema) -> Expression | None:  # noqa: ANN401
    if isinstance(one, s.Not):
        return _say_not(one.child, schema)
    path = one.attribute
    if len(path) != 1 or schema.names.count(path[0]) != 1:
        return None
    column, whole = pc.field(path[0]), schema.field(path[0]).type
    kind = value_type(whole)
    if isinstance(one, s.IsNull) or (isinstance(one, s.EqualNullSafe) and one.value is None):
        return None if _hides_nulls(whole) else column.is_null()
    if isinstance(one, s.IsNotNull):
        return None if _hides_nulls(whole) else column.is_valid()
    if kind is None:
        return None
    if isinstance(one, s.In):
        return _any_of(column, kind, one.value)
    maker = _COMPARISONS.get(type(one))
    return None if maker is None else maker(column, kind, one.value)


def _say_not(one: Any, schema: pa.Schema) -> Expression | None:  # noqa: ANN401
    if isinstance(one, s.IsNull):
        return _say(s.IsNotNull(one.attribute), schema)
    if isinstance(one, s.IsNotNull):
        return _say(s.IsNull(one.attribute), schema)
    return None


def _hides_nulls(kind: Any) -> bool:  # noqa: ANN401
    """Whether a value may be null where Arrow sees none: in a dictionary, or in a run."""
    return isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType | pa.BaseExtensionType)


def _any_of(column: Expression, kind: Any, values: Iterable[Value]) -> Expression | None:  # noqa: ANN401
    wanted = [value for value in values if value is not None]
    if not wanted or len(wanted) > _IN_MAX:
        return None
    found: Expression | None = None
    for value in wanted:
        said = _equal(column, kind, value)
        if said is None:
            return None
        found = said if found is None else found | said
    return found


def _equal(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    bounds = _bounds(kind, value)
    if bounds is None:
        return None
    low, high = bounds
    return column == low if low.equals(high) else (column >= low) & (column <= high)


def _less(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    bounds = _bounds(kind, value)
    return None if bounds is None else column < bounds[0]


def _at_most(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    bounds = _bounds(kind, value)
    return None if bounds is None else column <= bounds[1]


def _greater(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    bounds = None if kinds.is_floating(kind) else _bounds(kind, value)
    return None if bounds is None else column > bounds[1]


def _at_least(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    bounds = None if kinds.is_floating(kind) else _bounds(kind, value)
    return None if bounds is None else column >= bounds[0]


def _starts(column: Expression, kind: Any, value: Value) -> Expression | None:  # noqa: ANN401
    if not (_is_text(kind) and isinstance(value, str)):
        return None
    return pc.starts_with(column, value)


_COMPARISONS: Final[Mapping[type, Callable[[Expression, Any, Value], Expression | None]]] = {
    s.EqualTo: _equal,
    s.EqualNullSafe: _equal,
    s.LessThan: _less,
    s.LessThanOrEqual: _at_most,
    s.GreaterThan: _greater,
    s.GreaterThanOrEqual: _at_least,
    s.StringStartsWith: _starts,
}


def _bounds(kind: Any, value: Value) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Give the least and greatest stored value that Spark sees as ``value``; None if unknown."""
    stored = _stored(kind, value)
    if stored is None:
        return None
    if isinstance(stored, tuple):
        return tuple(pa.scalar(end, pa.int64()).cast(kind) for end in stored)
    try:
        scalar = pa.scalar(stored, kind)
    except (pa.ArrowException, OverflowError):
        return None
    return scalar, scalar


def _stored(kind: Any, value: Value) -> Value:  # noqa: ANN401
    if isinstance(value, bool) or kinds.is_boolean(kind):
        return value if isinstance(value, bool) and kinds.is_boolean(kind) else None
    if kinds.is_integer(kind):
        return value if isinstance(value, int) else None
    if kinds.is_floating(kind):
        return _float(kind, value)
    if _is_text(kind):
        return value if isinstance(value, str) else None
    if kinds.is_date32(kind):
        is_day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return value if is_day else None
    return _time(kind, value) if kinds.is_timestamp(kind) else None


def _float(kind: Any, value: Value) -> float | None:  # noqa: ANN401
    if not isinstance(value, float) or value != value:  # noqa: PLR0124
        return None
    # A value between two floats of less precision would be rounded to one of them.
    return value if kinds.is_float64(kind) else None


def _time(kind: Any, value: Value) -> tuple[int, int] | None:  # noqa: ANN401
    if not isinstance(value, dt.datetime) or (value.tzinfo is None) != (kind.tz is None):
        return None
    since = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    microseconds = (since - _EPOCH) // _MICROSECOND
    per = _PER_SECOND[kind.unit]
    if per >= 10**6:
        factor = per // 10**6
        ends = microseconds * factor, microseconds * factor + factor - 1
    else:
        whole, rest = divmod(microseconds * per, 10**6)
        if rest:
            return None
        ends = whole, whole
    return ends if _I64[0] <= ends[0] and ends[1] <= _I64[1] else None


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))
