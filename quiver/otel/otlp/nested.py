"""The forms of what is in messages: single messages, repeated numbers, and tables below a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.attributes import check_parts, read_attributes
from quiver.otel.otlp.attributes_out import write_attributes
from quiver.otel.otlp.columns import Columns
from quiver.otel.otlp.entries import (
    Array,
    Entry,
    Payloads,
    Reading,
    Request,
    Writing,
    numbers_of,
    read_entries,
)
from quiver.otel.otlp.forms import Number, Wire
from quiver.otel.otlp.limits import DEFAULT_LIMITS
from quiver.otel.otlp.rows import Rows
from quiver.otel.wire import Ints, Messages, Ranges, repeated_fixed64, repeated_varints, span

__all__ = ["Attributes", "Below", "Part", "Repeated", "RepeatedPart", "Table"]

_NEEDED: Final = ("id", "parent_id")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of OTAP for all messages of one kind. ``entries`` stand by number of field."""

    slot: str
    id_type: pa.DataType
    entries: Sequence[Entry]

    def read(
        self, request: Request, messages: Ranges, first: Sequence[tuple[str, Array]]
    ) -> Columns:
        """Read messages of which each is a row: its number is its id, then come these columns.

        What hangs from the rows becomes payloads of the request.
        """
        check_parts(messages.size, request.limits)
        columns = Columns()
        ids: Array = pa.array(np.arange(messages.size)).cast(self.id_type)
        for name, column in [("id", ids), *first]:
            columns.add(name, column, nullable=name not in _NEEDED)
        into = (messages.size, columns)
        return read_entries(request, messages.each_its_own(), self.entries, into=into)

    def write(self, rows: Rows, payloads: Payloads) -> Messages:
        """Write a message for each row, with what hangs from it."""
        writing = Writing(rows, payloads, Messages(rows.count))
        for each in self.entries:
            each.write(writing)
        return writing.messages


@dataclass(frozen=True, slots=True)
class Below:
    """A repeated message with a table of its own, whose rows name their parent by its id."""

    number: int
    table: Table
    parent_type: pa.DataType

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Read all of them into their slot."""
        self.read_ranges(reading.request, reading.level.ranges(self.number))

    def read_ranges(self, request: Request, ranges: Ranges) -> None:
        """Read these, whose owners are the rows of their parents."""
        if ranges.size:
            parents: Array = pa.array(ranges.owner).cast(self.parent_type)
            columns = self.table.read(request, ranges, [("parent_id", parents)])
            request.payloads[self.table.slot] = columns.batch()

    def write(self, writing: Writing) -> None:
        """Write all of them into the messages of their parents, by the ids of these."""
        batch = writing.payloads.get(self.table.slot)
        if batch is not None and batch.num_rows:
            rows, counts = Rows.of(batch, self.table.slot).below(writing.rows.ids("id"))
            below = self.table.write(rows, writing.payloads)
            writing.messages.children(self.number, below, counts)


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes, whose rows name what they belong to by its id."""

    number: int
    slot: str
    parent_type: pa.DataType
    depth: int
    """How deep in a request their values lie."""

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Read all of them into their slot."""
        found = read_attributes(
            reading.request.source,
            reading.level.ranges(self.number),
            ids=self.parent_type,
            limits=reading.request.limits,
            depth=self.depth,
        )
        if found is not None:
            reading.request.payloads[self.slot] = found

    def write(self, writing: Writing) -> None:
        """Write all of them into the messages that they belong to."""
        payload = writing.payloads.get(self.slot), self.slot
        room = DEFAULT_LIMITS.depth - self.depth
        of = writing.rows.ids("id")
        write_attributes(writing.messages, self.number, payload, of=of, room=room)


@dataclass(frozen=True, slots=True)
class Part:
    """A single message in a message: a struct, null where there is none."""

    number: int
    name: str
    entries: Sequence[Entry]
    needed: bool = False

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Add the struct, if any message has one."""
        ranges = reading.level.ranges(self.number)
        if ranges.size or self.needed:
            absent = np.ones(reading.level.count, np.bool_)
            absent[ranges.owner] = False
            into = (reading.level.count, Columns())
            below = read_entries(reading.request, ranges, self.entries, into=into)
            reading.columns.add(self.name, below.struct(absent))

    def write(self, writing: Writing) -> None:
        """Add a message where there is a struct."""
        there = writing.rows.there(self.name)
        if there.any():
            rows = writing.rows.inside(self.name).take(np.flatnonzero(there))
            below = Writing(rows, writing.payloads, Messages(rows.count))
            for entry in self.entries:
                entry.write(below)
            writing.messages.children(self.number, below.messages, there.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Repeated:
    """A repeated number: a list for each message, empty where it has none."""

    number: int
    name: str
    wire: Wire
    type: pa.DataType
    needed: bool = False

    def tags(self) -> Iterable[int]:
        """Tell both its tags: numbers may be packed or not."""
        return (span(self.number), self.wire.tag(self.number))

    def read(self, reading: Reading) -> None:
        """Add the lists, if any has an element or the column is needed."""
        level = reading.level
        gather = repeated_fixed64 if self.wire is Wire.FIXED64 else repeated_varints
        found = gather(reading.request.source, level, self.number)
        if found.value.size or self.needed:
            kind = np.float64 if pa.types.is_floating(self.type) else np.uint64
            item = pa.field("item", self.type, nullable=False)
            column = _lists(pa.array(found.value.view(kind)), found.counts(level.count), item)
            reading.columns.add(self.name, column, nullable=False)

    def write(self, writing: Writing) -> None:
        """Add the numbers, packed."""
        column: Any = writing.rows.array(self.name, pa.list_(self.type))
        if column is None:
            return
        words, _ = numbers_of(column.flatten())
        if self.wire is Wire.FIXED64:
            writing.messages.packed_fixed64(self.number, words, _lengths(column))
        else:
            writing.messages.packed_varints(self.number, words, _lengths(column))


@dataclass(frozen=True, slots=True)
class RepeatedPart:
    """A repeated message that is small: a list of structs for each message."""

    number: int
    name: str
    entries: Sequence[Number]

    def tags(self) -> Iterable[int]:
        """Tell its tag."""
        return (span(self.number),)

    def read(self, reading: Reading) -> None:
        """Add the lists, if any has an element."""
        ranges = reading.level.ranges(self.number)
        if ranges.size:
            check_parts(ranges.size, reading.request.limits)
            into = (ranges.size, Columns())
            each_a_row = ranges.each_its_own()
            values = read_entries(reading.request, each_a_row, self.entries, into=into).struct()
            counts = np.bincount(ranges.owner, minlength=reading.level.count)
            item = pa.field("item", values.type, nullable=False)
            reading.columns.add(self.name, _lists(values, counts, item), nullable=False)

    def write(self, writing: Writing) -> None:
        """Add a message for each element."""
        kind = pa.struct([(each.name, each.type) for each in self.entries])
        column: Any = writing.rows.array(self.name, pa.list_(kind))
        if column is None:
            return
        values = column.flatten()
        rows = Rows({self.name: values}, count=len(values), name=self.name).inside(self.name)
        below = Writing(rows, writing.payloads, Messages(rows.count))
        for entry in self.entries:
            entry.write(below)
        writing.messages.children(self.number, below.messages, _lengths(column))


def _lists(values: Array, counts: Ints, item: pa.Field[Any]) -> Array:
    """Make lists of so many values each."""
    offsets: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(item))


def _lengths(column: Any) -> Ints:  # noqa: ANN401
    """Tell how long each list is, 0 for null."""
    lengths: Ints = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)
