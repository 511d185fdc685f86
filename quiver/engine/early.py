"""What subscribers have before it is in a segment: whoever appended showed it to them.

It is kept in memory until what is open is sealed, see ``forgoing``; a crash forgets it, and those
bundles come again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["EarlyAcks"]


class EarlyAcks:
    """The numbers of the bundles that each subscriber has before its time, by its id.

    Used with the core's lock held.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._had: dict[int, set[int]] = {}

    def add(self, subscriber_id: int, wal_seqs: Iterable[int]) -> None:
        """Note that a subscriber has these."""
        self._had.setdefault(subscriber_id, set()).update(wal_seqs)

    def had_by(self, subscriber_id: int) -> Collection[int]:
        """Give the numbers of what one has."""
        return self._had.get(subscriber_id, ())

    def missing(self, subscriber_ids: Iterable[int], wal_seqs: Collection[int]) -> int:
        """Say how many of these are still to be taken, by all of the subscribers together."""
        return sum(
            sum(seq not in had for seq in wal_seqs) for had in map(self.had_by, subscriber_ids)
        )

    def forget(self, last_wal_seq: int) -> None:
        """Let go of all up to a number."""
        left = {who: {s for s in had if s > last_wal_seq} for who, had in self._had.items()}
        self._had = {who: had for who, had in left.items() if had}

    def take_back(self, first_wal_seq: int) -> None:
        """Let go of all from a number on: those bundles are not there, and others get it."""
        left = {who: {s for s in had if s < first_wal_seq} for who, had in self._had.items()}
        self._had = {who: had for who, had in left.items() if had}

    def __bool__(self) -> bool:
        """Whether anybody has anything."""
        return bool(self._had)
