"""The options of ``format("quiver-view")``.

What an option of the same name does elsewhere it does here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar, cast

from quiver.errors import ConfigError
from quiver.spark import options as o
from quiver.spark.options import Option, Table, Use
from quiver.upsert.viewing.columns import Errors, Layout

__all__ = [
    "AS_OF",
    "CHANGES",
    "COLUMNS",
    "ERRORS",
    "FAIL_ON_DATA_LOSS",
    "FROM_EPOCH",
    "LAYOUT",
    "MAX_BYTES",
    "MAX_EPOCHS",
    "MAX_PARTITION_BYTES",
    "MIN_PARTITIONS",
    "PATH",
    "POLL_INTERVAL",
    "PUSHDOWN",
    "SCHEMA_CHANGE",
    "STARTING_STATE",
    "TABLE",
    "THROUGH_EPOCH",
    "TIMESTAMP_UNIT",
    "Moment",
]

T = TypeVar("T")

Moment: TypeAlias = "int | datetime"
"""An epoch, or a time with a zone."""

_EPOCH: Final = re.compile(r"[0-9]{1,19}")


def moment(name: str, value: str) -> Moment:
    """Read an epoch, or a time in ISO 8601, which is of UTC if it names no zone."""
    text = value.strip()
    if _EPOCH.fullmatch(text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{name}: {value!r:.60} is no epoch and no time",
            hint="for instance 42, or 2013-07-01T12:00:00+00:00",
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _errors(name: str, value: str) -> Errors:
    return cast("Errors", o.one_of("fail", "skip", "only")(name, value))


def _layout(name: str, value: str) -> Layout:
    return cast("Layout", o.one_of("flat", "structs")(name, value))


def _of(option: Option[T], *uses: Use) -> Option[T]:
    return replace(option, uses=frozenset(uses))


_ALL: Final[tuple[Use, ...]] = ("state", "changes", "changes_stream")
_BATCH: Final[tuple[Use, ...]] = ("state", "changes")
_CHANGES: Final[tuple[Use, ...]] = ("changes", "changes_stream")
_STREAM: Final[tuple[Use, ...]] = ("changes_stream",)

PATH: Final = _of(o.PATH, *_ALL)
COLUMNS: Final = _of(o.COLUMNS, *_ALL)
TIMESTAMP_UNIT: Final = _of(o.TIMESTAMP_UNIT, *_ALL)
MAX_PARTITION_BYTES: Final = _of(o.MAX_PARTITION_BYTES, *_ALL)
MIN_PARTITIONS: Final = _of(o.MIN_PARTITIONS, *_ALL)
PUSHDOWN: Final = _of(o.PUSHDOWN, *_BATCH)
ERRORS: Final = Option("errors", _errors, frozenset(_ALL))
LAYOUT: Final = Option("layout", _layout, frozenset(_ALL))

AS_OF: Final = Option("asOf", moment, frozenset(("state",)))

CHANGES: Final = Option("changes", o.truth, frozenset(_ALL))
FROM_EPOCH: Final = Option("fromEpoch", moment, frozenset(_CHANGES))
STARTING_STATE: Final = Option("startingState", o.truth, frozenset(_CHANGES))
THROUGH_EPOCH: Final = Option("throughEpoch", moment, frozenset(("changes",)))

FAIL_ON_DATA_LOSS: Final = _of(o.FAIL_ON_DATA_LOSS, *_STREAM)
MAX_EPOCHS: Final = Option("maxEpochsPerTrigger", o.above_zero, frozenset(_STREAM))
MAX_BYTES: Final = _of(o.MAX_BYTES, *_STREAM)
SCHEMA_CHANGE: Final = _of(o.SCHEMA_CHANGE, *_STREAM)
POLL_INTERVAL: Final = _of(o.POLL_INTERVAL, *_STREAM)

_OPTIONS: Final[tuple[Option[Any], ...]] = (
    *(PATH, AS_OF, ERRORS, LAYOUT, COLUMNS, TIMESTAMP_UNIT, PUSHDOWN),
    *(MAX_PARTITION_BYTES, MIN_PARTITIONS),
    *(CHANGES, FROM_EPOCH, STARTING_STATE, THROUGH_EPOCH),
    *(FAIL_ON_DATA_LOSS, MAX_EPOCHS, MAX_BYTES, SCHEMA_CHANGE, POLL_INTERVAL),
)

TABLE: Final = Table("quiver-view", _OPTIONS)
