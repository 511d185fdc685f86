"""Which entries the queue has had already, by what its marks say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quiver.errors import InputError
from quiver.ship.queue.manifest import NewEntry, Span
from quiver.ship.queue.tail import Marks

__all__ = ["which_are_new"]

_HINT: Final = "look at the marks of the queue, and ship what is behind them, in order"


def which_are_new(marks: Marks, entries: Sequence[NewEntry]) -> list[bool]:
    """Say of each entry whether it brings what the queue has not had yet.

    Raises InputError for one that brings both, since half of it cannot be left out, and for
    segments out of order: a mark says of all below it that they are in.
    """
    known = dict(marks)
    found: list[bool] = []
    for entry in entries:
        there = [_is_in(marks, span) for span in entry.spans]
        is_new = not there or not all(there)
        if is_new and any(there):
            raise InputError(
                f"{entry.location} brings segments that the queue has had, and others", hint=_HINT
            )
        for span in entry.spans if is_new else ():
            if span.first <= known.get((span.store_id, span.core), -1):
                raise InputError(f"{_named(span)} come behind later ones", hint=_HINT)
            known[span.store_id, span.core] = span.last
        found.append(is_new)
    return found


def _is_in(marks: Marks, span: Span) -> bool:
    """Say whether all of a span is in; raises InputError if a part of it is."""
    if not 0 <= span.first <= span.last:
        raise InputError(f"{_named(span)} are none")
    mark = marks.get((span.store_id, span.core), -1)
    if span.last <= mark:
        return True
    if span.first <= mark:
        raise InputError(f"{_named(span)} are in the queue up to {mark}", hint=_HINT)
    return False


def _named(span: Span) -> str:
    return f"segments {span.first} to {span.last} of core {span.core}"
