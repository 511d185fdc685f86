"""Streams in the making: payloads that share slot, fingerprint and schema become one Arrow file.

Or several, where their dictionaries do not fit into one. All of them are streams of the same slot
and fingerprint. One chunk alone always fits, so any data can be written.

======================================  =========================================================
a column's dictionaries                 the stream is made
======================================  =========================================================
none in any column                      of the messages that the payloads hold, as they are
of plain values, without order          chunk by chunk: ``words``
anything else: nested, ordered, ...     of all chunks at once, at the end: ``dictionaries``
======================================  =========================================================

The first two kinds take chunks while the segment is still open; which of them came together does
not show in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.errors import InputError
from quiver.ipc import encode_file
from quiver.ipc_build import Messages, build_file, encode_messages, own_messages
from quiver.segment.body import Bodies, Body, GrowingBody
from quiver.segment.bounds import ColumnBounds, RunningBounds, column_bounds, dictionary_bounds
from quiver.segment.dictionaries import holds_dictionary, unite
from quiver.segment.events import EventRanges, event_place, event_ranges
from quiver.segment.nulls import RunningNulls, count_nulls
from quiver.segment.sums import Bytes, Piece
from quiver.segment.tables import Column
from quiver.segment.words import Words, can_grow

__all__ = [
    "Chunks",
    "FinishedStreams",
    "GrowingStream",
    "finish_at_once",
    "growing_columns",
    "ranges_of",
]

_WRITE_FAULTS: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


class FinishedStreams(NamedTuple):
    """A stream as bytes, or several alike that have a chunk each, and what the tables say of them.

    ``stored_schema`` is the declared one, except that indices of dictionaries may be narrower.
    ``bundles`` has the index of each chunk's bundle. Counts of nulls and bounds are of each stream.
    """

    stored_schema: pa.Schema
    bundles: Sequence[int]
    rows: Sequence[int]
    events: EventRanges
    null_counts: tuple[int | None, ...]
    bounds: tuple[ColumnBounds, ...]
    body: Bodies


@dataclass(frozen=True, slots=True)
class Chunks:
    """Payloads of one schema as Arrow data, and the index of the bundle that each came in."""

    bundles: Sequence[int]
    batches: Sequence[pa.RecordBatch]
    payloads: Sequence[memoryview]

    def part(self, start: int, stop: int) -> Chunks:
        """Give chunks ``[start, stop)``."""
        return Chunks(self.bundles[start:stop], self.batches[start:stop], self.payloads[start:stop])


class GrowingStream:
    """A stream that takes chunks until ``finish``, which may be called again after more of them.

    Not safe for several threads at once. ``columns`` are the places of those with dictionaries,
    each as ``words.can_grow`` wants it.
    """

    def __init__(
        self, schema: pa.Schema, columns: Sequence[int], *, event_column: str, config: SegmentConfig
    ) -> None:
        self._schema = schema
        self._event_column = event_column
        self._config = config
        self._words = {place: Words(schema.field(place).type) for place in columns}
        self._bundles: list[int] = []
        self._rows: list[int] = []
        self._events: list[EventRanges] = []
        self._body = GrowingBody()
        self._plain_types = [field.type for field in schema]
        self._bounds = [RunningBounds(field.type) for field in schema]
        self._nulls = [RunningNulls(field.type) for field in schema]

    def take(self, chunks: Chunks) -> int:
        """Take as many of the chunks as fit, in their order, and say how many; the first always."""
        batches = chunks.batches
        arrays = {place: [batch.column(place) for batch in batches] for place in self._words}
        try:
            surveys = {place: words.survey(arrays[place]) for place, words in self._words.items()}
        except pa.ArrowInvalid:  # More than 2 GiB of text: by halves, or a stream for itself.
            half = len(batches) // 2
            if half:
                taken = self.take(chunks.part(0, half))
                return taken if taken < half else half + self.take(chunks.part(half, len(batches)))
            if self._bundles:
                return 0
            raise
        count = min(
            (
                words.fitting(surveys[place], self._config.dictionary_cardinality)
                for place, words in self._words.items()
            ),
            default=len(batches),
        )
        if count:
            indices = {
                place: words.take(arrays[place][:count], surveys[place])
                for place, words in self._words.items()
            }
            self._add(chunks.part(0, count), indices)
        return count

    def _add(self, chunks: Chunks, indices: dict[int, list[Column]]) -> None:
        batches = chunks.batches
        kinds = list(self._plain_types)
        for place, words in self._words.items():
            kinds[place] = words.index_type
        columns: list[Column] = []
        for place in range(len(self._schema)):
            if place in indices:
                columns.append(indices[place])
            else:
                columns.append([batch.column(place) for batch in batches])
                self._bounds[place].add(columns[place])
            self._nulls[place].add(columns[place])
        if self._words or self._config.compression != "none":
            messages = [self._encoded(columns, kinds, chunks)]
        else:
            messages = self._as_they_are(columns, chunks)
        if self._body.messages and kinds != self._plain_types:
            self._body.replace([self._widened(each, kinds) for each in self._body.messages])
        self._plain_types = kinds
        self._body.add(messages)
        self._bundles += chunks.bundles
        self._rows += [batch.num_rows for batch in batches]
        self._events.append(ranges_of(self._schema, self._event_column, batches))

    def _as_they_are(self, columns: Sequence[Column], chunks: Chunks) -> list[Messages]:
        """Find the messages in the payloads; those of another writer may have to be made anew."""
        every = own_messages(chunks.payloads)
        if every is not None:
            return [every]
        found = []
        for place in range(len(chunks.bundles)):
            alone = chunks.part(place, place + 1)
            own = own_messages(alone.payloads)
            arrays = [column[place : place + 1] for column in columns]
            found.append(own or self._encoded(arrays, self._plain_types, alone))
        return found

    def _encoded(self, columns: Sequence[Column], kinds: Sequence[Any], chunks: Chunks) -> Messages:
        """Write chunks anew, each dictionary as its indices."""
        schema = _plain_schema(kinds)
        body_bytes = sum(map(len, chunks.payloads))
        rows = [batch.num_rows for batch in chunks.batches]
        table: pa.Table | list[pa.RecordBatch]
        if columns and all(rows):
            make: Any = pa.chunked_array
            arrays = [make(column, kind) for column, kind in zip(columns, kinds, strict=True)]
            table = pa.Table.from_arrays(arrays, schema=schema)
        else:  # A table does not show chunks without rows.
            table = [
                pa.RecordBatch.from_arrays([column[chunk] for column in columns], schema=schema)
                for chunk in range(len(rows))
            ]
        return self._written(table, body_bytes)

    def _written(self, table: pa.Table | list[pa.RecordBatch], body_bytes: int) -> Messages:
        try:
            if isinstance(table, pa.Table):
                table.validate()  # Of a few microseconds, against bytes that nobody could read.
            return encode_messages(
                table, compression=self._config.compression, body_bytes=body_bytes
            )
        except _WRITE_FAULTS as error:
            raise _unwritable(error) from error

    def _widened(self, messages: Messages, kinds: Sequence[Any]) -> Messages:
        """Write messages again with wider indices, now that there are more words."""
        narrow = _plain_schema(self._plain_types)
        data = b"".join([narrow.serialize(), *messages.pieces])
        with pa.ipc.open_stream(data) as reader:
            batches = list(reader)
        wide = _plain_schema(kinds)
        ready = []
        for batch in batches:
            arrays = [
                array.cast(kind) if place in self._words else array
                for place, (array, kind) in enumerate(zip(batch.columns, kinds, strict=True))
            ]
            ready.append(pa.RecordBatch.from_arrays(arrays, schema=wide))
        return self._written(ready, 2 * len(data))

    def sum_up(self) -> None:
        """Compute the checksums of what came so far, so that nobody must who writes it."""
        self._body.sum_up()

    def finish(self) -> FinishedStreams:
        """Give the stream of all chunks so far."""
        fields = list(self._schema)
        bounds = [running.found() for running in self._bounds]
        nulls = [running.found() for running in self._nulls]
        empty = []
        for place, words in self._words.items():
            kind = pa.dictionary(words.index_type, words.kind.value_type)
            if kind != fields[place].type:
                fields[place] = fields[place].with_type(kind)
            bounds[place] = dictionary_bounds(words.values)
            nulls[place] = None if words.values.null_count else nulls[place]
            indices: Any = pa.array([], words.index_type)
            empty.append(pa.DictionaryArray.from_arrays(indices, words.values))
        metadata: Any = self._schema.metadata
        stored = pa.schema(fields, metadata)
        try:
            body = self._body.finish(partial(self._built, stored, empty))
        except _WRITE_FAULTS as error:
            raise _unwritable(error) from error
        events = EventRanges.joined(self._events)
        return FinishedStreams(
            stored, self._bundles, self._rows, events, tuple(nulls), tuple(bounds), body
        )

    def _built(self, stored: pa.Schema, words: Sequence[Any], align: int) -> Sequence[Bytes]:
        return build_file(
            stored,
            words,
            self._body.messages,
            compression=self._config.compression,
            align=align,
        )


def _plain_schema(kinds: Sequence[Any]) -> pa.Schema:
    return pa.schema([pa.field("", kind) for kind in kinds])


def ranges_of(
    schema: pa.Schema, event_column: str, batches: Sequence[pa.RecordBatch]
) -> EventRanges:
    """Find the event times of chunks, if there is such a column."""
    place = event_place(schema, event_column)
    if place is None:
        return EventRanges.unknown(len(batches))
    return event_ranges([batch.column(place) for batch in batches])


def finish_at_once(
    schema: pa.Schema, chunks: Chunks, event_column: str, *, config: SegmentConfig
) -> list[FinishedStreams]:
    """Make streams of chunks whose dictionaries can only be united together."""
    found = []
    for part in unite(schema, chunks.batches, cardinality=config.dictionary_cardinality):
        ours = chunks.part(part.chunks.start, part.chunks.stop)
        # What is united is no larger, and to ask the batches as they came is quick.
        body_bytes = sum(batch.get_total_buffer_size() for batch in ours.batches)
        try:
            for batch in part.batches:
                batch.validate()
            data = encode_file(
                part.schema,
                list(part.batches),
                compression=config.compression,
                body_bytes=body_bytes,
            )
        except _WRITE_FAULTS as error:
            raise _unwritable(error) from error
        table = pa.Table.from_batches(part.batches, part.schema)
        found.append(
            FinishedStreams(
                part.schema,
                ours.bundles,
                [batch.num_rows for batch in part.batches],
                ranges_of(schema, event_column, part.batches),
                count_nulls(table),
                tuple(column_bounds(table)),
                Body([Piece(memoryview(data))]),
            )
        )
    return found


def _unwritable(error: Exception) -> InputError:
    return InputError(f"pyarrow cannot write this data as a file: {error}")


def growing_columns(schema: pa.Schema) -> list[int] | None:
    """List the columns with dictionaries; None if one of them cannot grow chunk by chunk."""
    found = [place for place, field in enumerate(schema) if holds_dictionary(field)]
    return found if all(can_grow(schema.field(place)) for place in found) else None
