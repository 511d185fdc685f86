"""Which nodes a loader asked for something, and has not heard since."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from quiver.chain.placing import Node
from quiver.clock import Clock
from quiver.errors import QuiverError, RemoteError

__all__ = ["QUIET_NS", "Hearing"]

QUIET_NS: Final = 10_000_000_000
"""So long a node that did not answer is done without; it is asked again then."""


class Hearing:
    """Nodes that are quiet. Safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        """All are heard at first."""
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[str, int] = {}

    def ask(self, name: str) -> None:
        """Say that a node is about to be asked: it is quiet from now on until it answers."""
        with self._lock:
            self._since[name] = self._clock.monotonic_ns()

    @contextmanager
    def asked(self, name: str) -> Iterator[None]:
        """Ask a node; whatever it answers, it is heard, also if it refuses."""
        try:
            yield
        except RemoteError:
            self.ask(name)
            raise
        except QuiverError:
            self.hear(name)
            raise
        self.hear(name)

    def heard_first(self, nodes: Sequence[Node]) -> list[Node]:
        """Give the nodes that are not quiet; all, if none is left.

        Others may see a node that this loader does not reach, and it would wait for it.
        """
        now = self._clock.monotonic_ns()
        with self._lock:
            quiet = {name for name, since in self._since.items() if now - since < QUIET_NS}
        return [node for node in nodes if node.name not in quiet] or list(nodes)

    def is_quiet(self, name: str) -> bool:
        """Whether a node is done without."""
        with self._lock:
            since = self._since.get(name)
        return since is not None and self._clock.monotonic_ns() - since < QUIET_NS

    def hear(self, name: str) -> None:
        """Say that a node answered."""
        with self._lock:
            self._since.pop(name, None)
