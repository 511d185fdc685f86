"""Which splits there are, asked again and again, and who reads which.

The first listing has to work. After it a failed one changes nothing, and too many in a row make
the enumerator anew. Splits are only ever added, unless the connector says that one which is listed
no more is gone for good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from quiver.clock import Clock
from quiver.errors import InputError, QuiverError
from quiver.events import Events
from quiver.source.protocols import Connector, Split, SplitEnumerator
from quiver.units import parse_duration

__all__ = ["Discovery", "assign"]

EVERY: Final = "30s"
FAILURES_MAX: Final = 10


class Discovery:
    """Lists the splits of a connector, no more often than ``every``. One thread uses it."""

    def __init__(self, connector: Connector, *, clock: Clock, every: float | str = EVERY) -> None:
        """List them for the first time; what fails is raised, and the source refused."""
        self._connector = connector
        self._clock = clock
        self._every_ns = parse_duration(every)
        self._events = Events(source=connector.name)
        self._failures = 0
        self._enumerator: SplitEnumerator | None = connector.enumerator()
        try:
            self._splits = {split.id: split for split in self._enumerator.list_splits()}
        except BaseException:
            self._enumerator.close()
            raise
        self._missing: set[str] = set()
        self._listed_ns = clock.monotonic_ns()
        self.failure: QuiverError | None = None
        """Why the last listing failed, if it did."""

    @property
    def splits(self) -> list[Split]:
        """All splits that are known, in order of their ids."""
        return [self._splits[name] for name in sorted(self._splits)]

    @property
    def missing(self) -> set[str]:
        """Known splits that the last listing did not have: they stay, and are told of once."""
        return set(self._missing)

    def tick(self, *, now: bool = False) -> bool:
        """List again if it is time, or ``now``; gives whether the set of splits has changed."""
        with self._events.telling():
            if not now and self._clock.monotonic_ns() - self._listed_ns < self._every_ns:
                return False
            self._listed_ns = self._clock.monotonic_ns()
            try:
                found = self._list()
            except QuiverError as error:
                self._note(error)
                return False
            self._failures = 0
            self.failure = None
            self._events.end("source.listing_failed")
            return self._take(found)

    def close(self) -> None:
        """Let go of the enumerator; a second call does nothing."""
        enumerator, self._enumerator = self._enumerator, None
        if enumerator is not None:
            enumerator.close()

    def _list(self) -> Sequence[Split]:
        if self._enumerator is None:
            self._enumerator = self._connector.enumerator()
        return self._enumerator.list_splits()

    def _note(self, error: QuiverError) -> None:
        self.failure = error
        self._failures += 1
        self._events.begin("source.listing_failed", error=error)
        if self._failures > FAILURES_MAX:
            self._failures = 0
            self.close()

    def _take(self, found: Sequence[Split]) -> bool:
        listed = {split.id: split for split in found}
        before = set(self._splits)
        gone = before - set(listed)
        if self._connector.drops_splits:
            self._splits = listed
            return set(listed) != before
        for name in sorted(gone - self._missing):
            self._events.warning("source.split_missing", split=name)
        self._missing = gone
        self._splits.update(listed)
        return set(self._splits) != before


def assign(
    splits: Collection[Split], readers: Mapping[str, Collection[str]]
) -> dict[str, list[Split]]:
    """Share splits out: what a reader has it keeps, a new split goes to who has the fewest.

    ``readers`` has the ids that each of them has now. New splits go in order of their ids, and of
    two readers with equally many to the first by name; what is no split any more is left out.
    """
    if not readers:
        raise InputError("there is nobody to assign splits to", hint="name at least one reader")
    wanted = {split.id: split for split in splits}
    taken: set[str] = set()
    found: dict[str, list[Split]] = {}
    for name in sorted(readers):
        own = sorted(set(readers[name]) & wanted.keys())
        if taken & set(own):
            raise InputError(
                f"split {min(taken & set(own))} is read twice", hint="by one at a time"
            )
        taken |= set(own)
        found[name] = [wanted[split] for split in own]
    for split in sorted(wanted.keys() - taken):
        fewest = min(found, key=lambda name: (len(found[name]), name))
        found[fewest].append(wanted[split])
    return found
