"""The options of ``format("quiver")``: one table of them, checked before anything is read.

Names are taken in any case, for Spark hands them over in small letters. An unknown one is an error,
and so is one that has no meaning for what is done: for a batch, a stream, or writing, of a store or
of a queue. What begins with ``bucket.`` is for the object store of a queue: it may be secret, and
is shown nowhere. Other formats of ours have tables of their own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from quiver.errors import ConfigError, InputError
from quiver.scan.times import ingestion_range
from quiver.spark.schema import Nanoseconds
from quiver.spark.span import parse_marks
from quiver.units import parse_bytes, parse_duration

__all__ = [
    "BATCH_ID",
    "CHECKPOINT_LOCATION",
    "COLUMNS",
    "CONFIG",
    "CONSUME",
    "CREATE_IF_MISSING",
    "ENDING_SEGMENT",
    "ENDING_TIME",
    "FAIL_ON_DATA_LOSS",
    "INCLUDE_METADATA",
    "MAX_BYTES",
    "MAX_BYTES_PER_BUNDLE",
    "MAX_PARTITION_BYTES",
    "MAX_ROWS_PER_BUNDLE",
    "MAX_SEGMENTS",
    "MERGE_SCHEMA",
    "MIN_PARTITIONS",
    "PATH",
    "POLL_INTERVAL",
    "PUSHDOWN",
    "SCHEMA_CHANGE",
    "SINK",
    "SINK_ID",
    "SLOT",
    "SLOTS",
    "STARTING_OFFSETS",
    "STARTING_SEGMENT",
    "STARTING_TIME",
    "SUBSCRIBER",
    "SWEEP",
    "TABLE",
    "TIMESTAMP_UNIT",
    "Option",
    "Options",
    "Table",
    "Use",
    "above_zero",
    "not_below_zero",
    "one_of",
    "size",
    "text",
    "truth",
]

T = TypeVar("T")

Use: TypeAlias = Literal[
    "batch",
    "stream",
    "write",
    "queue",
    "queue_stream",
    "state",
    "changes",
    "changes_stream",
]
"""What a data source is asked to do: ``read``, ``readStream``, or one of the two ways to write; the
first two of a queue; and what may be read of a collection."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_MARK: Final = "option."
_BUCKET: Final = "bucket."
_SPOKEN: Final = {
    "batch": "reading a batch",
    "stream": "reading a stream",
    "write": "writing",
    "queue": "reading a batch from a queue",
    "queue_stream": "reading a stream from a queue",
    "state": "reading the state of a collection",
    "changes": "reading changes of a collection",
    "changes_stream": "reading a stream of changes",
}


def text(name: str, value: str) -> str:  # noqa: ARG001
    """Take a value as it is."""
    return value


def size(name: str, value: str) -> int:
    """Read a size above zero, such as ``256MiB``."""
    return _above_zero(name, parse_bytes(value, key=name))


def above_zero(name: str, value: str) -> int:
    """Read a whole number above zero."""
    try:
        return _above_zero(name, int(value))
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{name}: {value!r} is not a whole number") from error


def truth(name: str, value: str) -> bool:
    """Read ``true`` or ``false``, in any case, as Spark writes them."""
    return one_of("true", "false")(name, value.lower()) == "true"


def not_below_zero(name: str, value: str) -> int:
    """Read a whole number that is not below zero."""
    return above_zero(name, value) if value != "0" else 0


def one_of(*words: str) -> Callable[[str, str], str]:
    """Give what reads one of these words."""

    def parse(name: str, value: str) -> str:
        if value not in words:
            raise ConfigError(f"{name}: {value!r} is none of {', '.join(words)}")
        return value

    return parse


def _above_zero(name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{name}: must be above zero")
    return value


def _names(name: str, value: str) -> tuple[str, ...]:  # noqa: ARG001
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _nanoseconds(name: str, value: str) -> Nanoseconds:
    return cast("Nanoseconds", one_of("us", "int64")(name, value))


def _time(name: str, value: str) -> int:
    """Read ISO 8601, or nanoseconds since 1970."""
    given: str | int = int(value) if _WHOLE.fullmatch(value.strip()) else value
    try:
        found, _ = ingestion_range((given, None))
    except InputError as error:
        raise ConfigError(
            f"{name}: {value!r} is no time",
            hint="for instance 2013-07-01T12:00:00+00:00, or nanoseconds since 1970",
        ) from error
    return cast("int", found)


def _interval(name: str, value: str) -> int:
    """Read a time, such as ``250ms``, in nanoseconds."""
    return parse_duration(value, key=name)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One option: its name as documents write it, what reads its value, what it is for."""

    name: str
    parse: Callable[[str, str], T]
    uses: frozenset[Use]


_READING: Final[frozenset[Use]] = frozenset({"batch", "stream", "queue", "queue_stream"})
_OF_STORES: Final[frozenset[Use]] = frozenset({"batch", "stream"})
_BATCH: Final[frozenset[Use]] = frozenset({"batch"})
_ANY_BATCH: Final[frozenset[Use]] = frozenset({"batch", "queue"})
_WRITING: Final[frozenset[Use]] = frozenset({"write"})
_STREAM: Final[frozenset[Use]] = frozenset({"stream"})
_ANY_STREAM: Final[frozenset[Use]] = frozenset({"stream", "queue_stream"})
_QUEUE_STREAM: Final[frozenset[Use]] = frozenset({"queue_stream"})
_IN_A_FOLDER: Final[frozenset[Use]] = frozenset({"batch", "stream", "write"})
_ALL: Final[frozenset[Use]] = _READING | _WRITING

PATH: Final = Option("path", text, _ALL)
SLOT: Final = Option("slot", text, _ALL)

COLUMNS: Final = Option("columns", _names, _READING)
TIMESTAMP_UNIT: Final = Option("timestampUnit", _nanoseconds, _READING)
MAX_PARTITION_BYTES: Final = Option("maxPartitionBytes", size, _READING)
MIN_PARTITIONS: Final = Option("minPartitions", above_zero, _READING)
INCLUDE_METADATA: Final = Option("includeMetadata", truth, _READING)
FAIL_ON_DATA_LOSS: Final = Option("failOnDataLoss", truth, _READING)

STARTING_SEGMENT: Final = Option("startingSegment", parse_marks, _OF_STORES)
ENDING_SEGMENT: Final = Option("endingSegment", parse_marks, _BATCH)
STARTING_TIME: Final = Option("startingTime", _time, _READING)
ENDING_TIME: Final = Option("endingTime", _time, _ANY_BATCH)
MERGE_SCHEMA: Final = Option("mergeSchema", truth, _BATCH)
PUSHDOWN: Final = Option("pushdown", one_of("never", "once"), _BATCH)

_READ_OPTIONS: Final = (
    COLUMNS,
    TIMESTAMP_UNIT,
    MAX_PARTITION_BYTES,
    MIN_PARTITIONS,
    INCLUDE_METADATA,
    FAIL_ON_DATA_LOSS,
)
_BATCH_OPTIONS: Final = (
    STARTING_SEGMENT,
    ENDING_SEGMENT,
    STARTING_TIME,
    ENDING_TIME,
    MERGE_SCHEMA,
    PUSHDOWN,
)

MAX_ROWS_PER_BUNDLE: Final = Option("maxRowsPerBundle", above_zero, _WRITING)
MAX_BYTES_PER_BUNDLE: Final = Option("maxBytesPerBundle", size, _WRITING)
CREATE_IF_MISSING: Final = Option("createIfMissing", truth, _WRITING)
SLOTS: Final = Option("slots", _names, _WRITING)
CONFIG: Final = Option("config", text, _WRITING)
SINK_ID: Final = Option("sinkId", text, _WRITING)
BATCH_ID: Final = Option("batchId", not_below_zero, _WRITING)
CHECKPOINT_LOCATION: Final = Option("checkpointLocation", text, _ANY_STREAM | _WRITING)
"""Spark's own; it hands it to the sink as well, but not to a source."""

_WRITE_OPTIONS: Final = (
    MAX_ROWS_PER_BUNDLE,
    MAX_BYTES_PER_BUNDLE,
    CREATE_IF_MISSING,
    SLOTS,
    CONFIG,
    SINK_ID,
    BATCH_ID,
    CHECKPOINT_LOCATION,
)

STARTING_OFFSETS: Final = Option("startingOffsets", one_of("earliest", "latest"), _ANY_STREAM)
MAX_SEGMENTS: Final = Option("maxSegmentsPerTrigger", above_zero, _ANY_STREAM)
MAX_BYTES: Final = Option("maxBytesPerTrigger", size, _ANY_STREAM)
SCHEMA_CHANGE: Final = Option("schemaChange", one_of("fail", "ignore"), _ANY_STREAM)
SUBSCRIBER: Final = Option("subscriber", text, _STREAM)
SINK: Final = Option("sink", text, _ANY_STREAM)
CONSUME: Final = Option("consume", truth, _QUEUE_STREAM)
POLL_INTERVAL: Final = Option("pollInterval", _interval, _QUEUE_STREAM)
SWEEP: Final = Option("sweep", truth, _QUEUE_STREAM)

_STREAM_OPTIONS: Final = (
    *(STARTING_OFFSETS, MAX_SEGMENTS, MAX_BYTES),
    *(SCHEMA_CHANGE, SUBSCRIBER, SINK),
    *(CONSUME, POLL_INTERVAL, SWEEP),
)


class Table:
    """The options that one format knows."""

    def __init__(self, name: str, options: Iterable[Option[Any]]) -> None:
        """Take the ``options`` of the format ``name``."""
        self.name = name
        self._known = {option.name.lower(): option for option in options}

    def find(self, key: str) -> Option[Any]:
        """Give the option that a key in small letters names; raises ConfigError."""
        option = self._known.get(key)
        if option is None:
            near = difflib.get_close_matches(key, self._known, n=1)
            known = ", ".join(known.name for known in self._known.values())
            hint = f"did you mean {self._known[near[0]].name}?" if near else f"known: {known}"
            raise ConfigError(f"format {self.name} has no option {key!r}", hint=hint)
        return option


TABLE: Final = Table(
    "quiver",
    (PATH, SLOT, *_READ_OPTIONS, *_WRITE_OPTIONS, *_BATCH_OPTIONS, *_STREAM_OPTIONS),
)


class Options:
    """The options of one data source, all of them known and read; may be pickled."""

    def __init__(self, given: Mapping[str, str], table: Table = TABLE) -> None:
        """Read all; raises ConfigError that names the first that is wrong."""
        self._format = table.name
        self._uses: dict[str, frozenset[Use]] = {}
        self._values: dict[str, object] = {}
        self.bucket: dict[str, str] = {}
        """What the object store is told, by names without the prefix; secrets among it."""
        for key, value in _of_table(given).items():
            if key.lower().startswith(_BUCKET):
                self.bucket[key.lower().removeprefix(_BUCKET)] = value
                continue
            option = table.find(key.lower())
            self._values[option.name] = option.parse(option.name, value)
            self._uses[option.name] = option.uses

    def get(self, option: Option[T], default: T) -> T:
        """Give the value of an option, or the default if it was not given."""
        return cast("T", self._values.get(option.name, default))

    def find(self, option: Option[T]) -> T | None:
        """Give the value of an option; None if it was not given."""
        return cast("T | None", self._values.get(option.name))

    def need(self, option: Option[T], hint: str) -> T:
        """Give the value of an option; raises ConfigError if there is none, or an empty one."""
        value = self._values.get(option.name)
        if value is None or value == "":
            raise ConfigError(f"format {self._format} needs the option {option.name!r}", hint=hint)
        return cast("T", value)

    def __repr__(self) -> str:
        """Say which were given, and no value: there may be a secret in one."""
        names = [*self._values, *(f"{_BUCKET}{name}" for name in self.bucket)]
        return f"Options({', '.join(names)})"

    def check_use(self, use: Use) -> None:
        """Raise ConfigError if an option was given that has no meaning for this."""
        if self.bucket and use in _IN_A_FOLDER:
            raise ConfigError(
                f"{_BUCKET}{next(iter(self.bucket))}: has no meaning for a store in a folder",
                hint="it is for a queue, such as .load('s3://bucket/path')",
            )
        for name, uses in self._uses.items():
            if use not in uses:
                others = " or ".join(_SPOKEN[other] for other in _SPOKEN if other in uses)
                raise ConfigError(
                    f"{name}: has no meaning for {_SPOKEN[use]}", hint=f"it is for {others}"
                )


def _of_table(given: Mapping[str, str]) -> Mapping[str, str]:
    """Give what the user said in CREATE TABLE: Spark marks it, among properties of its own."""
    small = {key.lower(): value for key, value in given.items()}
    marked = {key[len(_MARK) :]: value for key, value in small.items() if key.startswith(_MARK)}
    if marked and "location" in small:
        marked.setdefault("path", small["location"].removeprefix("file:"))
    return marked or given
