"""A segment in the making: bundles go in some at a time, streams come out at the end.

Most of the work is done when bundles come, so that little is left when the segment is due. The
streams depend on the bundles and their order alone, not on how many came together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.errors import InputError
from quiver.ipc import decode_own_streams
from quiver.payload import EncodedBundle
from quiver.segment.gather import Key, Members, gather
from quiver.segment.rest import Rest, no_rest
from quiver.segment.stream import (
    Chunks,
    FinishedStreams,
    GrowingStream,
    finish_at_once,
    growing_columns,
)
from quiver.slots import SlotTable

__all__ = ["Builder", "BuiltStreams", "SegmentBuilder", "refuse_unsound"]

_WINDOW: Final = 1024
"""Chunks that a stream is offered at once; fewer while they do not fit."""


class BuiltStreams(NamedTuple):
    """Streams alike, whose they are, and the schema that their chunks were declared with."""

    slot_id: int
    fingerprint: bytes
    schema: pa.Schema
    streams: FinishedStreams


class Builder(Protocol):
    """What takes the bundles of a segment in while it is open, and gives its streams at the end."""

    bundles: list[EncodedBundle]
    sound: bool

    def add(self, bundles: Sequence[EncodedBundle], slots: SlotTable) -> None:
        """Take bundles in, behind those that are in."""
        ...

    def sum_up(self) -> None:
        """Do what can be done for what is in."""
        ...

    def finish(self) -> list[BuiltStreams]:
        """Give the streams of all bundles so far; may be called again."""
        ...


def refuse_unsound(builder: Builder) -> None:
    """Raise InputError if an ``add`` failed before."""
    if not builder.sound:
        raise InputError("a builder is used after it failed", hint="begin with a new one")


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
        self._groups: dict[Key, _Group] = {}

    def add(self, bundles: Sequence[EncodedBundle], slots: SlotTable) -> None:
        """Take bundles in, behind those that are in; ``slots`` has all that they fill.

        Raises InputError for a slot that is not there, and DamagedEntry for a payload that is not
        what it says; then this builder is of no use any more.
        """
        refuse_unsound(self)
        self.sound = False
        gathered = gather(bundles, len(self.bundles), trusted=self._trusted, rest=self._rest)
        for key, members in gathered.items():
            self._rest()
            self.take(key, members, slots[key[0]].event_time)
        self.bundles += bundles
        self.sound = True

    def take(self, key: Key, members: Members, event_column: str) -> None:
        """Take payloads of one key in, whose bundles somebody else keeps count of."""
        batches = decode_own_streams(members.payloads)
        group = self._groups.get(key)
        if group is None:
            group = _Group(batches[0].schema, event_column, self._config)
            self._groups[key] = group
        group.add(Chunks(members.bundles, batches, members.payloads))

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
