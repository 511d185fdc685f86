"""One auditor at a time: a lease that trusts no clock but one's own, for lengths of time alone.

The holder counts a number in the metadata up, every two seconds. Whoever has seen the same number
for six seconds by his own monotonic clock takes it. Two holders at once do no harm, because every
act of theirs is a swap; so a lease saves work, and no safety rests on it.
"""

from __future__ import annotations

import json
from typing import Final

from quiver.chain.metadata import Kept, Metadata, swap
from quiver.clock import Clock
from quiver.errors import DamagedEntry, MissingError

__all__ = ["AUDITOR", "HELD_NS", "RENEW_NS", "Lease", "auditor_in"]

AUDITOR: Final = "auditor"
"""Where the lease is; its holder is called as the node, a dot, and what nobody else is called."""

RENEW_NS: Final = 2_000_000_000
HELD_NS: Final = 6_000_000_000
_COUNTER_MAX: Final = 1 << 62


class Lease:
    """A lease as one who may hold it sees it. Not safe for threads."""

    def __init__(self, metadata: Metadata, key: str, holder: str, *, clock: Clock) -> None:
        """Take part in it under a name that nobody else ever has."""
        self._metadata = metadata
        self._key = key
        self._holder = holder
        self._clock = clock
        self._seen: tuple[str, int] | None = None
        self._seen_ns = 0
        self._renewed_ns = 0
        self.is_held = False

    def look(self) -> bool:
        """Renew, take, or watch the lease, as it is due; gives whether it is held.

        To be called every second or so. Raises what the metadata raise; it is not held then. What
        is damaged is told, and taken like one that nobody renews.
        """
        now = self._clock.monotonic_ns()
        if self.is_held and now - self._renewed_ns < RENEW_NS:
            return True
        self.is_held = False
        data, found, damage = self._peek()
        if found != self._seen:
            self._seen, self._seen_ns = found, now
        is_mine = found is not None and found[0] == self._holder
        if found is not None and not is_mine and now - self._seen_ns < HELD_NS:
            if damage is not None:
                raise damage
            return False
        kept = self._kept()
        if (kept.data if kept else None) != data:
            return False  # Somebody was at it just now; the next look tells.
        mine = self._holder, found[1] + 1 if found else 1
        new = json.dumps({"holder": mine[0], "counter": mine[1]}).encode()
        if not swap(self._metadata, self._key, kept, data=new, clock=self._clock):
            return False
        self._seen, self._seen_ns = mine, now
        self._renewed_ns = now  # Of before the swap: it may have taken long.
        self.is_held = True
        return True

    def _peek(self) -> tuple[bytes | None, tuple[str, int] | None, DamagedEntry | None]:
        """Give what is there: who only watches needs no more than that."""
        try:
            data = self._metadata.peek(self._key)
        except MissingError:
            return None, None, None
        try:
            return data, _decoded(data, f"{self._metadata.place}/{self._key}"), None
        except DamagedEntry as error:
            return data, (repr(data), 0), error

    def _kept(self) -> Kept | None:
        try:
            return self._metadata.get(self._key)
        except MissingError:
            return None


def auditor_in(metadata: Metadata) -> str:
    """Give the node that held the auditor's lease last; empty if nobody ever did."""
    try:
        kept = metadata.get(AUDITOR)
    except MissingError:
        return ""
    return _decoded(kept.data, f"{metadata.place}/{AUDITOR}")[0].rpartition(".")[0]


def _decoded(data: bytes, path: str) -> tuple[str, int]:
    try:
        found = json.loads(data)
        holder, counter = found["holder"], found["counter"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedEntry("the lease is no lease", path=path) from error
    is_one = isinstance(holder, str) and isinstance(counter, int)
    if not is_one or isinstance(counter, bool) or not 0 < counter < _COUNTER_MAX:
        raise DamagedEntry("the lease is no lease", path=path)
    return holder, counter
