"""What happened to a loader, in order, until it is over."""

from __future__ import annotations

from collections import deque

from quiver.chain.loading.happenings import Happening, Opened

__all__ = ["Mailbox"]


class Mailbox:
    """Filled by anybody, emptied by one. Safe for many threads.

    A stream that comes once it is closed is closed as well: nobody would ever do that, and it would
    keep its block open for ever.
    """

    def __init__(self) -> None:
        self._kept: deque[Happening] = deque()
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self._kept

    def put(self, happening: Happening) -> None:
        """Keep it until it is taken."""
        self._kept.append(happening)
        if self._is_closed:
            self.close()

    def take(self) -> Happening | None:
        """Give the oldest; None if there is none."""
        try:
            return self._kept.popleft()
        except IndexError:
            return None

    def close(self) -> None:
        """Let go of all that is in it, and of all that comes; may be called again."""
        self._is_closed = True
        while happening := self.take():
            if isinstance(happening, Opened):
                happening.stream.close()
