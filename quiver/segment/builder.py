"""A segment in the making: bundles go in some at a time, streams come out at the end.

Most of the work is done when bundles come, so that little is left when the segment is due. The
streams depend on the bundles and their order alone, not on how many came together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.errors import InputError
from quiver.ipc import decode_own_streams, decode_stream, schema_message
from quiver.payload import EncodedBundle
from quiver.segment.kept import KEPT_BYTES_MIN, keep
from quiver.segment.open_segment import check_bundle
from quiver.segment.rest import Rest, no_rest
from quiver.segment.small import unite_small
from quiver.segment.stream import (
    Chunks,
    FinishedStreams,
    GrowingStream,
    finish_at_once,
    growing_columns,
)
from quiver.slots import SlotTable

__all__ = ["BuiltStreams", "SegmentBuilder"]

_Key: TypeAlias = tuple[int, bytes, bytes]

_WINDOW: Final = 1024
"""Chunks that a stream is offered at once; fewer while they do not fit."""


class BuiltStreams(NamedTuple):
    """Streams alike, whose they are, and the schema that their chunks were declared with."""

    slot_id: int
    fingerprint: bytes
    schema: pa.Schema
    streams: FinishedStreams


class _Members(NamedTuple):
    """Payloads of one key, as columns: the index of the bundle of each, its bytes, its rows."""

    bundles: list[int]
    payloads: list[memoryview]
    rows: list[int]

    @classmethod
    def none(cls) -> _Members:
        return cls([], [], [])


class SegmentBuilder:
    """Groups the payloads of bundles into streams. Not safe for several threads at once.

    Payloads are ``trusted`` if this process encoded or checked them; others are validated first.
    """

    def __init__(self, config: SegmentConfig, *, trusted: bool, rest: Rest = no_rest) -> None:
        """Start without a bundle."""
        self.bundles: list[EncodedBundle] = []
        self.sound = True
        """Whether it holds all of ``bundles`` and no more: not after an ``add`` that failed."""
        self._config = config
        self._trusted = trusted
        self._rest = rest
        self._groups: dict[tuple[int, bytes, bytes], _Group] = {}

    def add(self, bundles: Sequence[EncodedBundle], slots: SlotTable) -> None:
        """Take bundles in, behind those that are in; ``slots`` has all that they fill.

        Raises InputError for a slot that is not there, and DamagedEntry for a payload that is not
        what it says; then this builder is of no use any more.
        """
        if not self.sound:
            raise InputError("a builder is used after it failed", hint="begin with a new one")
        self.sound = False
        for key, members in self._gathered(bundles).items():
            self._rest()
            self._add(key, members, slots)
        self.bundles += bundles
        self.sound = True

    def _add(self, key: _Key, members: _Members, slots: SlotTable) -> None:
        batches = decode_own_streams(members.payloads)
        group = self._groups.get(key)
        if group is None:
            event_column = slots[key[0]].event_time
            group = _Group(batches[0].schema, event_column, self._config)
            self._groups[key] = group
        group.add(Chunks(members.bundles, batches, members.payloads))

    def _gathered(self, bundles: Sequence[EncodedBundle]) -> dict[_Key, _Members]:
        """Group the payloads of more bundles by slot, fingerprint and schema."""
        gathered: dict[_Key, _Members] = {}
        last: dict[tuple[int, bytes], tuple[bytes, _Members]] = {}
        for index, bundle in enumerate(bundles, len(self.bundles)):
            check_bundle(bundle)
            self._rest()
            for slot_id, _, fingerprint, rows, data in bundle.payloads:
                if not self._trusted:
                    decode_stream(data, rows=rows)
                payload = memoryview(data)
                known = last.get((slot_id, fingerprint))
                # Two schemas that share a fingerprint by mistake are kept apart here and not
                # refused, since the bundles were taken long ago.
                if known is None or bytes(payload[: len(known[0])]) != known[0]:
                    key = slot_id, fingerprint, schema_message(payload)
                    known = key[2], gathered.setdefault(key, _Members.none())
                    last[slot_id, fingerprint] = known
                members = known[1]
                members.bundles.append(index)
                members.payloads.append(payload)
                members.rows.append(rows)
        return gathered

    def keep(self, bundles: Sequence[EncodedBundle], slots: SlotTable) -> list[BuiltStreams]:
        """Give the streams of bundles, with each payload as it came unless it is small.

        For a builder without a bundle, which is of no use afterwards. Raises what ``add`` does.
        """
        self.sound = False
        built = []
        for key, members in self._gathered(bundles).items():
            self._rest()
            schema = pa.ipc.read_schema(pa.py_buffer(members.payloads[0]))
            kept = self._kept(schema, members, slots[key[0]].event_time)
            if kept is None:
                self._add(key, members, slots)
            else:
                built.append(BuiltStreams(key[0], key[1], schema, kept))
        return [*built, *self.finish()]

    def _kept(
        self, schema: pa.Schema, members: _Members, event_column: str
    ) -> FinishedStreams | None:
        """Keep payloads of one schema, or unite small ones in little time; None if neither can."""
        bundles, payloads, rows = members
        if sum(map(len, payloads)) < KEPT_BYTES_MIN * len(payloads):
            chunks = Chunks(bundles, decode_own_streams(payloads), payloads)
            return unite_small(schema, chunks, event_column, config=self._config)
        return keep(
            schema, bundles, payloads, rows=rows, event_column=event_column, rest=self._rest
        )

    def sum_up(self) -> None:
        """Compute checksums of what is in, so that nobody must who writes the segment."""
        for group in self._groups.values():
            group.sum_up()

    def finish(self) -> list[BuiltStreams]:
        """Give the streams of all bundles so far; may be called again."""
        return [
            BuiltStreams(slot_id, fingerprint, group.schema, stream)
            for (slot_id, fingerprint, _), group in self._groups.items()
            for stream in group.finish()
        ]


class _Group:
    """The streams of one slot with one fingerprint and one schema, filled in order."""

    def __init__(self, schema: pa.Schema, event_column: str, config: SegmentConfig) -> None:
        self.schema = schema
        self._event_column = event_column
        self._config = config
        self._columns = growing_columns(schema)
        self._streams: list[GrowingStream] = []
        self._waiting: list[Chunks] = []
        """Chunks that can only be united together."""

    def add(self, chunks: Chunks) -> None:
        if self._columns is None:
            self._waiting.append(chunks)
            return
        if not self._streams:
            self._streams.append(self._new_stream(self._columns))
        start, window = 0, _WINDOW
        while start < len(chunks.bundles):
            offered = chunks.part(start, start + window)
            taken = self._streams[-1].take(offered)
            start += taken
            window = _WINDOW
            if taken < len(offered.bundles):
                # Where streams are short, so is the next offer: each is looked at as a whole.
                window = max(2 * taken, 1)
                self._streams.append(self._new_stream(self._columns))

    def sum_up(self) -> None:
        for stream in self._streams:
            stream.sum_up()

    def _new_stream(self, columns: Sequence[int]) -> GrowingStream:
        return GrowingStream(
            self.schema, columns, event_column=self._event_column, config=self._config
        )

    def finish(self) -> list[FinishedStreams]:
        if self._columns is not None:
            return [stream.finish() for stream in self._streams]
        every = Chunks(
            [index for chunks in self._waiting for index in chunks.bundles],
            [batch for chunks in self._waiting for batch in chunks.batches],
            [],
        )
        return finish_at_once(self.schema, every, self._event_column, config=self._config)
