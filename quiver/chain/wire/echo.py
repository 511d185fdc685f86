"""Whether who is spoken to hears it, by what his heartbeats say.

Where a link is cut one way only, heartbeats come back over it for a while, and no acks. So a
heartbeat says how far its sender has heard, and counts as of the moment at which something was
sent that it does not know of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Echo"]

_LITTLE_BYTES: Final = 64 << 10
"""Behind more than this the way itself may take as long as silence may last, on a slow link."""


class Echo:
    """Remembers one thing that was sent and not heard yet; for a thread that sends and one more."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._sent: tuple[int, int] | None = None
        """Where it ends, and when it went."""

    def sends(self, end: int, under_way: int) -> None:
        """Note what is about to be sent, and how many bytes are under way with it."""
        if self._sent is None and under_way <= _LITTLE_BYTES:
            self._sent = end, self._now_ns()

    def heard(self, length: int) -> int:
        """Take in how far the other side has heard; gives up to when it hears all that is sent."""
        sent = self._sent
        if sent is not None and length < sent[0]:
            return sent[1]
        self._sent = None
        return self._now_ns()
