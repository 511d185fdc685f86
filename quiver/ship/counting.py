"""What a queue counts of its manifest, carried over into the metrics of who uses it."""

from __future__ import annotations

import threading

from quiver.metrics import Metrics
from quiver.ship.queue import Counters

__all__ = ["WriteTally"]


class WriteTally:
    """Writes and conflicts of one queue, for one role; a queue that two use is counted for both."""

    def __init__(self, counters: Counters, metrics: Metrics, role: str) -> None:
        """Count from now on."""
        self._counters, self._metrics, self._role = counters, metrics, role
        self._lock = threading.Lock()
        self._begun = self._seen = counters.writes, counters.conflicts

    def note(self) -> None:
        """Carry over what came since the last time."""
        with self._lock:
            writes, conflicts = self._seen
            self._seen = self._counters.writes, self._counters.conflicts
            new_writes, new_conflicts = self._seen[0] - writes, self._seen[1] - conflicts
        self._metrics.add("quiver.ship.manifest_writes", new_writes, label=self._role)
        self._metrics.add("quiver.ship.manifest_conflicts", new_conflicts, label=self._role)

    @property
    def conflict_rate(self) -> float:
        """Conflicts by writes so far, in percent."""
        writes, conflicts = (now - then for now, then in zip(self._seen, self._begun, strict=True))
        return 100.0 * conflicts / writes if writes else 0.0
