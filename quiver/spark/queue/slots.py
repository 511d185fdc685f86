"""What a slot looks like in the whole queue: one batch is fetched for each schema, and not all.

Payloads have a number for each slot of a segment, which stands for its name and schema. What a
number stands for is learned once and stays known to this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from quiver.errors import InputError, MissingError, QuiverError
from quiver.events import Events
from quiver.promote import union_schema
from quiver.ship.consumer import Fetcher
from quiver.ship.consumer.fetcher import POISON
from quiver.ship.queue import Entry
from quiver.ship.shipper import ShippedSegment
from quiver.spark.queue.entries import descriptor_of, segments_of
from quiver.spark.queue.record import open_call, slot_schema

__all__ = ["FETCHES_MAX", "Known", "look_up"]

FETCHES_MAX: Final = 64
"""So many batches are fetched at most to learn what is in a slot."""
_LEARNED_MAX: Final = 1024


class _Meaning(NamedTuple):
    """What a number stands for."""

    slot: str
    schema: pa.Schema


_learned: dict[int, _Meaning] = {}


@dataclass
class Known:
    """What numbers stand for, as seen from one slot; goes to whoever plans."""

    slot: str
    schemas: dict[int, pa.Schema | None] = field(default_factory=dict)
    """None: the number is of another slot."""
    others: list[pa.Schema] = field(default_factory=list)
    """Of segments in which the slot has no number."""
    names: set[str] = field(default_factory=set)
    """All slots that were met."""
    before: pa.Schema | None = None
    """What the query had when it ran last."""

    def may_have(self, segment: ShippedSegment) -> bool:
        """Whether a segment has anything of the slot, as far as is known."""
        return any(self.schemas.get(number, ...) is not None for number in segment.schemas)

    def schema(self, place: str, columns: tuple[str, ...] = ()) -> pa.Schema:
        """Give one schema for all, of ``columns`` if there are any, in their order.

        Raises MissingError if nothing has the slot, InputError if types do not go together or a
        column is nowhere.
        """
        known = [self.before, *self.schemas.values(), *self.others]
        found = [schema for schema in known if schema is not None]
        if not found:
            names = ", ".join(sorted(self.names)) or "none"
            raise MissingError(
                f"nothing in the queue {place} is of slot {self.slot!r}: its columns are not known",
                path=place,
                hint=f"slots that are there: {names}; or say the columns with .schema(...)",
            )
        if columns:
            wanted = set(columns)
            found = [pa.schema([f for f in schema if f.name in wanted]) for schema in found]
        union = union_schema(found)
        missing = [name for name in columns if name not in union.names]
        if missing:
            raise InputError(f"slot {self.slot!r} has no column {missing[0]!r} in {place}")
        fields = [union.field(name) for name in columns] if columns else list(union)
        return pa.schema([f.with_nullable(nullable=True) for f in fields])


def look_up(
    entries: Iterable[Entry],
    slot: str,
    *,
    fetcher: Fetcher,
    place: str,
    columns: tuple[str, ...] = (),
    fails_on_loss: bool = True,
) -> Known:
    """Learn what entries have of a slot, also one that is acked and still there.

    Raises what a fetch does; without ``fails_on_loss`` batches that cannot be had tell nothing.
    InputError if more would have to be fetched than is sensible.
    """
    known = Known(slot)
    fetched = 0
    for entry in entries:
        segments = segments_of(entry, place=place)
        if all(_is_known(known, segment) for segment in segments):
            continue
        if fetched == FETCHES_MAX:
            raise InputError(
                f"slot {slot!r} of {place} has more than {FETCHES_MAX} schemas",
                hint="say the columns that are wanted with .schema(...)",
            )
        fetched += 1
        try:
            _learn(entry, known, fetcher, columns=columns)
        except POISON as error:
            if isinstance(error, InputError) or (fails_on_loss and not entry.is_acked):
                raise
            _warn(entry, error, place=place)
    return known


def _is_known(known: Known, segment: ShippedSegment) -> bool:
    """Whether nothing new can be learned of a segment."""
    for number in segment.schemas:
        if number in known.schemas:
            continue
        meaning = _learned.get(number)
        if meaning is None:
            return False
        _note(known, number, meaning)
    return True


def _note(known: Known, number: int, meaning: _Meaning) -> None:
    known.schemas[number] = meaning.schema if meaning.slot == known.slot else None
    known.names.add(meaning.slot)


def _learn(entry: Entry, known: Known, fetcher: Fetcher, *, columns: tuple[str, ...]) -> None:
    batch = fetcher.fetch(descriptor_of(entry))
    for index in range(len(batch.calls)):
        with open_call(batch, index) as (segment, reader):
            if reader.slots is None:
                continue
            for slot_id, number in _numbers(segment).items():
                name = reader.slots[slot_id].name
                known.names.add(name)
                if number == 0 and name != known.slot:
                    continue
                schema = slot_schema(
                    reader, slot_id, needed=lambda column: not columns or column in columns
                )
                if schema is None:
                    continue
                if number == 0:
                    known.others.append(schema)
                    continue
                if len(_learned) >= _LEARNED_MAX:
                    _learned.clear()
                _learned[number] = meaning = _Meaning(name, schema)
                _note(known, number, meaning)


def _numbers(segment: ShippedSegment) -> Mapping[int, int]:
    """Give the numbers of a segment by the ids of its slots."""
    ids = (slot_id for slot_id in range(segment.slots.bit_length()) if segment.slots >> slot_id & 1)
    return dict(zip(ids, segment.schemas, strict=True))


def _warn(entry: Entry, error: QuiverError, *, place: str) -> None:
    events = Events(store=place)
    events.warning(
        "spark.batch_lost", sequence=entry.sequence, location=entry.location, error=error
    )
    events.tell()
