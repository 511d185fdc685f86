"""Whether who is spoken to hears it, by what his heartbeats say.

Where a link is cut one way only, heartbeats come back over it for a while, and no acks. So a
heartbeat says how far its sender has heard, and counts as of the moment at which something was
sent that it does not know of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Echo"]

_LITTLE_BYTES: Final = 64 << 10
"""Behind more than this the way itself may take as long as silence may last, on a slow link."""


class _Sent(NamedTuple):
    """Where something ends that was sent, and when it went."""

    end: int
    at_ns: int


class Echo:
    """Remembers the first and the last that was sent and not heard yet.

    For two threads: one that sends, and one that hears.
    Acks come late, each while the next is under way already: when the first is heard the last one
    takes its place, which went later than what is between them.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._first: _Sent | None = None
        self._last: _Sent | None = None

    def sends(self, end: int, under_way: int, *, is_next: bool = False) -> None:
        """Note what is about to be sent, and how many bytes are under way with it.

        ``is_next``: somebody says that all was heard which was sent before.
        """
        if is_next:
            self._first = None
        if under_way > _LITTLE_BYTES:
            return
        self._last = _Sent(end, self._now_ns())
        self._first = self._first or self._last

    def heard(self, length: int) -> int:
        """Take in how far the other side has heard; gives up to when it hears all that is sent."""
        for sent in (self._first, self._last):
            if sent is not None and length < sent.end:
                self._first = sent
                return sent.at_ns
        self._first = None
        return self._now_ns()
