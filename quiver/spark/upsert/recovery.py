"""Whether a batch is in the collection already, and which of its rows are.

The manifest keeps two records of a source: of the query that is at it, and of all before that one.
A query counts its batches, so the first record tells a batch that comes again. Of a query that lost
its checkpoint the numbers begin anew, and only the second record helps: where those before had come
to in each split. Rows below that are left out for as long as the query lives; rows that come later
than others of their split, as a stateful step may let them, are not.

=====================  ==========================================  ==============================
the batch              is told by                                  what becomes of it
=====================  ==========================================  ==============================
comes again            its number is not above the record's        nothing: it is in
is the next one        its number                                  applied
is a later one         its number                                  SourceError: batches are missing
the first of a query   another query in the record, or none        applied behind what is known
a later one of it      another query in the record, or none        SourceError likewise
=====================  ==========================================  ==============================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quiver.errors import SourceError
from quiver.upsert.persist import Source

__all__ = ["BEFORE", "Batch", "advanced", "decide"]

BEFORE: Final = "/before"
"""Behind the name of a source: how far the queries before the one that is at it had come."""

_ANEW: Final = "begin with an empty checkpoint, or write to another collection"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query, and what to leave out of it."""

    query: str
    number: int
    is_known: bool = False
    """Whether all of it is in the collection."""
    floors: Mapping[str, int] = field(default_factory=dict)
    """For each split the first offset that is not in yet."""
    is_first: bool = False
    """Whether the collection has nothing of the query yet."""
    replaces: str = ""
    """The query that was at the source before, if this is the first batch of another."""


def decide(sources: Mapping[str, Source], name: str, batch: tuple[str, int]) -> Batch:
    """Say what becomes of a batch, which is a query and a number; raises SourceError."""
    query, number = batch
    record = sources.get(name)
    if record is None or record.query != query:
        if number:
            what = "nothing of it"
            if record is not None:
                who = f"query {record.query}" if record.query else "somebody else"
                what = f"what {who} read since"
            raise SourceError(
                f"query {query} is at batch {number:,}, and the collection has {what}",
                split=name,
                hint=_ANEW,
            )
        floors = _furthest(_splits(sources, name), _splits(sources, name + BEFORE))
        replaces = "" if record is None else record.query
        return Batch(query, number, floors=floors, is_first=True, replaces=replaces)
    if number > record.batch + 1:
        raise SourceError(
            f"query {query} is at batch {number:,}, and the collection has its batches up to "
            f"{record.batch:,}",
            split=name,
            hint=f"was the collection put back from a copy? {_ANEW}",
        )
    floors = dict(_splits(sources, name + BEFORE))
    return Batch(query, number, is_known=number <= record.batch, floors=floors)


def advanced(
    sources: Mapping[str, Source], name: str, batch: Batch, *, ends: Mapping[str, int]
) -> dict[str, Source]:
    """Give the records of a source with a batch in; ``ends`` is where it ends in its splits."""
    splits = _furthest(_splits(sources, name), ends)
    found = {name: Source(batch.query, batch.number, splits)}
    if batch.is_first and batch.floors:
        found[name + BEFORE] = Source(batch.replaces, 0, dict(batch.floors))
    return found


def _splits(sources: Mapping[str, Source], name: str) -> Mapping[str, int]:
    record = sources.get(name)
    return {} if record is None else record.splits


def _furthest(some: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    found = dict(some)
    for split, place in others.items():
        found[split] = max(place, found.get(split, 0))
    return found
