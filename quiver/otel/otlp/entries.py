"""Tables of OTAP as data: an entry for each field of a message, shared by reading and writing.

An entry knows the number of its field, the name of its column, and the form that the one has in
bytes and the other in Arrow. What proto3 cannot tell from nothing is null in a column that OTAP
can do without, and such a column is left out when all of it is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.columns import Columns
from quiver.otel.otlp.limits import Limits
from quiver.otel.otlp.rows import Rows
from quiver.otel.wire import Flags, Level, Longs, Messages, Ranges, Source, read

__all__ = [
    "Array",
    "Entry",
    "Payloads",
    "Reading",
    "Request",
    "Writing",
    "numbers_of",
    "read_entries",
]

Array: TypeAlias = "pa.Array[Any]"
Payloads: TypeAlias = Mapping[str, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Request:
    """What is read: bytes, how much of them is taken, and the payloads that come of them."""

    source: Source
    limits: Limits
    payloads: dict[str, pa.RecordBatch] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """All messages of one kind on their way into a table."""

    request: Request
    level: Level
    columns: Columns
    ours: list[tuple[str, Array]] = field(default_factory=list)
    """Columns that OTAP does not have, for the end."""


@dataclass(frozen=True, slots=True)
class Writing:
    """The rows of a table on their way into messages, one of each."""

    rows: Rows
    payloads: Payloads
    messages: Messages


class Entry(Protocol):
    """A field of a message, or several that are one thing, and the columns for them."""

    def tags(self) -> Iterable[int]:
        """Tell the tags of its fields."""

    def read(self, reading: Reading) -> None:
        """Add its columns."""

    def write(self, writing: Writing) -> None:
        """Add its fields."""


def read_entries(
    request: Request, messages: Ranges, entries: Sequence[Entry], *, into: tuple[int, Columns]
) -> Columns:
    """Read so many messages, whose owners are their rows, and add their columns."""
    count, columns = into
    tags = {tag for each in entries for tag in each.tags()}
    reading = Reading(request, read(request.source, messages, tags, count=count), columns)
    for each in entries:
        each.read(reading)
    for name, column in reading.ours:
        columns.add(name, column)
    return columns


def numbers_of(column: Array) -> tuple[Longs, Flags | None]:
    """Give numbers as 64 bits each, 0 for null, and who has one, None if all have."""
    valid = None
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int64())
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        column = column.fill_null(pa.scalar(0, pa.int8()).cast(column.type))
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values).view(np.uint64), valid
    if values.dtype.kind == "i":
        values = values.astype(np.int64)  # Negative numbers are 64 bits long in protobuf.
        return values.view(np.uint64), valid
    return values.astype(np.uint64), valid
