"""A small entry that comes when nothing is under way: who brings it sends it himself.

To wake the worker takes as long as to send it, and whoever waits for each of his entries waits for
that as well. What a worker can rely on he cannot: a signal handler may raise wherever he is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from quiver.chain.loading.flow import Flow
from quiver.chain.loading.outbox import Outbox
from quiver.errors import QuiverError

__all__ = ["Alone"]

_BYTES_MAX: Final = 64 << 10


class Alone:
    """Sends such an entry. In the worker's turn, by whoever has that."""

    def __init__(
        self, outbox: Outbox, flow: Flow, *, lock: AbstractContextManager[object], limit: float
    ) -> None:
        """Take from an outbox, whose lock it is, what goes into a flow, up to so long a block."""
        self._limit = limit
        self._outbox = outbox
        self._flow = flow
        self._lock = lock
        self._is_amid = False

    def send(self) -> bool:
        """Send what waits if it is all that is kept, and small; else False, and nothing is done.

        Raises what broke the stream. An interrupt leaves it to ``mend``.
        """
        stream, route = self._flow.stream, self._flow.route
        if stream is None or route is None or self._is_amid:
            return False
        if self._flow.length >= self._limit:
            return False  # The next block is to be seen to.
        self._is_amid = True
        with self._lock:
            entry = self._outbox.take_alone(_BYTES_MAX)
        try:
            if entry is not None:
                self._flow.send([entry], stream, route)
        except QuiverError:
            self._is_amid = False
            raise
        self._is_amid = False
        return entry is not None

    def mend(self) -> bool:
        """Say whether somebody was interrupted in the midst of it; what is kept is whole then.

        Nobody knows how much of it went down the stream: that is to be broken.
        """
        if not self._is_amid:
            return False
        with self._lock:
            self._outbox.recount()
        self._is_amid = False
        return True
