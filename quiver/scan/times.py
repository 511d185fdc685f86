"""Ranges of time as people give them, and what they mean for rows.

A range is half-open: ``(start, end)``, None for no bound on that side. A time is a ``datetime``
(UTC if it has no zone), a text in ISO 8601, or nanoseconds since 1970.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.slots import Slot

__all__ = ["TimeRange", "event_filter", "event_range", "ingestion_range"]

Time: TypeAlias = datetime | str | int | None
TimeRange: TypeAlias = tuple[Time, Time]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FACTORS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_I64: Final = (-(1 << 63), (1 << 63) - 1)


def ingestion_range(given: TimeRange) -> tuple[int | None, int | None]:
    """Read a range of times of appends, in nanoseconds since 1970; raises InputError."""
    return _range("ingestion_time", given)


def event_range(given: TimeRange) -> tuple[int | None, int | None]:
    """Read a range of event times, in nanoseconds since 1970; raises InputError."""
    return _range("event_time", given)


def event_filter(given: tuple[int | None, int | None], slot: Slot, schema: pa.Schema | None) -> Any:  # noqa: ANN401
    """Say as an expression that a row's event time is in range; None if there is no range.

    Rows without an event time are in none. Without a ``schema`` only the slot is looked at.
    Raises InputError if the slot has no column of event times.
    """
    low, high = given
    if low is None and high is None:
        return None
    name = slot.event_time
    if not name:
        raise InputError(
            f"event_time: slot {slot.name!r} has no column of event times",
            hint="name one when the store is made: Slot(..., event_time='column'), or use where=",
        )
    if schema is None:
        return None
    kind: Any = schema.field(name).type if name in schema.names else None
    if kind is None or not pa.types.is_timestamp(kind):
        raise InputError(f"event_time: column {name!r} of slot {slot.name!r} is {kind}, no time")
    found: Any = pc.field(name).is_valid()
    # Rounded up to the unit of the column, in which all its times are whole numbers.
    first, end = (
        None if bound is None else -(-bound // _FACTORS[kind.unit]) for bound in (low, high)
    )
    if (first is not None and first > _I64[1]) or (end is not None and end <= _I64[0]):
        return found & pc.scalar(False)
    if first is not None and first > _I64[0]:
        found = found & (pc.field(name) >= pa.scalar(first, pa.int64()).cast(kind))
    if end is not None and end <= _I64[1]:
        found = found & (pc.field(name) < pa.scalar(end, pa.int64()).cast(kind))
    return found


def _range(what: str, given: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    if not isinstance(given, tuple | list) or len(given) != 2:  # noqa: PLR2004
        raise InputError(
            f"{what}: {given!r} is no range", hint=f"say {what}=(start, end); None for no bound"
        )
    low, high = (_nanoseconds(what, time) for time in given)
    if low is not None and high is not None and low > high:
        raise InputError(f"{what}: the range ends before it starts", hint="(start, end)")
    return low, high


def _nanoseconds(what: str, time: Any) -> int | None:  # noqa: ANN401
    if time is None or (isinstance(time, int) and not isinstance(time, bool)):
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise InputError(
                f"{what}: {time!r} is no time", hint="for instance 2013-07-01T12:00:00+00:00"
            ) from error
    if not isinstance(time, datetime):
        raise InputError(
            f"{what}: {time!r} is no time", hint="a datetime, ISO 8601, or nanoseconds since 1970"
        )
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MICROSECOND * 1_000
