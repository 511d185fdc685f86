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
_LATE_NS: Final = 250_000_000
"""Who answers later than that was away; a node that is there promises in some milliseconds."""


class Hearing:
    """Nodes that are quiet. Safe for many threads."""

    def __init__(self, clock: Clock) -> None:
        """All are heard at first."""
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[str, int] = {}
        self._late: dict[str, int] = {}
        """When a node last failed to answer in time."""

    def ask(self, name: str) -> None:
        """Say that a node is about to be asked: it is quiet from now on until it answers."""
        with self._lock:
            self._since[name] = self._clock.monotonic_ns()

    @contextmanager
    def asked(self, name: str) -> Iterator[None]:
        """Ask a node; whatever it answers, it is heard, also if it refuses."""
        begun_ns = self._clock.monotonic_ns()
        try:
            yield
        except RemoteError:
            self.ask(name)
            self._note(name)
            raise
        except QuiverError:
            self._answered(name, begun_ns)
            raise
        self._answered(name, begun_ns)

    def _answered(self, name: str, begun_ns: int) -> None:
        if self._clock.monotonic_ns() - begun_ns > _LATE_NS:
            self._note(name)
        self.hear(name)

    def _note(self, name: str) -> None:
        with self._lock:
            self._late[name] = self._clock.monotonic_ns()

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

    def was_away(self, name: str, since_ns: int) -> bool:
        """Whether a node is done without, or was late since then: it itself, not a link to it."""
        with self._lock:
            late_ns = self._late.get(name)
        return self.is_quiet(name) or (late_ns is not None and late_ns > since_ns)

    def hear(self, name: str) -> None:
        """Say that a node answered."""
        with self._lock:
            self._since.pop(name, None)
