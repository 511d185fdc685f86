"""What was delivered lately, so that what comes a second time is known. Pure.

A batch comes twice if whoever appended it never saw the answer, and a segment if it was shipped
again under a new name. Both are far apart by no more than a few entries, so the window is short.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from quiver.ship.consumer.identity import Identity

__all__ = ["WINDOW", "Delivered", "Window"]

WINDOW: Final = 4096
"""How many locations and segments are remembered."""


class Delivered(NamedTuple):
    """One batch that was delivered; an application may keep these in its own transaction."""

    sequence: int
    location: str
    identities: tuple[Identity, ...] = ()


class Window:
    """The last locations and segments, each with the sequence under which it came first."""

    def __init__(self, limit: int = WINDOW, known: Iterable[Delivered] = ()) -> None:
        self._limit = limit
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        self._delivered: OrderedDict[int, Delivered] = OrderedDict()
        for each in known:
            self.note(each)

    def first(self, location: str, sequence: int) -> int | None:
        """Say under which sequence a location came before; None if it did not."""
        return self._before(location, sequence)

    def repeats(self, identities: Sequence[Identity | None], sequence: int) -> tuple[int, ...]:
        """Say which calls of a batch came before, or twice in it."""
        here: set[Identity] = set()
        found = []
        for index, identity in enumerate(identities):
            if identity is None:
                continue
            if identity in here or self._before(identity, sequence) is not None:
                found.append(index)
            here.add(identity)
        return tuple(found)

    def _before(self, key: Hashable, sequence: int) -> int | None:
        found = self._seen.get(key)
        return found if found is not None and found < sequence else None

    def note(self, delivered: Delivered) -> None:
        """Remember a batch, and forget the oldest if they are too many."""
        for key in (delivered.location, *delivered.identities):
            self._seen.setdefault(key, delivered.sequence)
        self._delivered[delivered.sequence] = delivered
        while len(self._seen) > self._limit and len(self._delivered) > 1:
            _, old = self._delivered.popitem(last=False)
            for key in (old.location, *old.identities):
                if self._seen.get(key) == old.sequence:
                    del self._seen[key]

    def through(self, sequence: int | None) -> tuple[Delivered, ...]:
        """Give what was delivered up to a sequence, oldest first."""
        if sequence is None:
            return ()
        return tuple(each for each in self._delivered.values() if each.sequence <= sequence)
