"""What the store counts: one catalogue of names with their meaning, and the counters themselves.

Names are OpenTelemetry's, dotted; a Prometheus face spells them with underscores. Labels are
bounded: never a segment number or a path.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CATALOGUE", "Metric", "Metrics"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the catalogue. Every metric so far is a counter since the store was opened."""

    name: str
    unit: str
    help: str


CATALOGUE: tuple[Metric, ...] = (
    Metric("quiver.wal.appended_bundles", "{bundle}", "Bundles taken by append."),
    Metric("quiver.wal.appended_bytes", "By", "Bytes of WAL entries written."),
    Metric("quiver.wal.syncs", "{sync}", "Calls of fdatasync on the WAL."),
    Metric("quiver.wal.throttled_appends", "{append}", "Appends that found no room."),
    Metric("quiver.wal.reclaim_failures", "{attempt}", "Times that WAL space was not given back."),
    Metric("quiver.segment.finalized_segments", "{segment}", "Segment files written."),
    Metric("quiver.segment.finalize_failures", "{attempt}", "Segment files that failed."),
    Metric("quiver.segment.missing", "{segment}", "Segment files found gone while still needed."),
    Metric("quiver.segment.dropped", "{segment}", "Segments deleted with unacked bundles."),
    Metric("quiver.subscriber.dropped_bundles", "{bundle}", "Bundles dropped, per subscriber."),
    Metric("quiver.subscriber.dead_letters", "{bundle}", "Bundles given up, per subscriber."),
    Metric("quiver.subscriber.orphans_removed", "{subscriber}", "Subscribers never seen again."),
    Metric("quiver.inbox.refused", "{file}", "Inboxes that could not be believed."),
    Metric("quiver.acks.records", "{record}", "Records written to ack.log."),
    Metric("quiver.acks.checkpoint_failures", "{attempt}", "Checkpoints that failed."),
    Metric("quiver.retention.evicted_segments", "{segment}", "Segments deleted, all acked."),
    Metric("quiver.retention.expired_segments", "{segment}", "Segments deleted for their age."),
    Metric("quiver.retention.size_emergencies", "{time}", "Times that the store became full."),
    Metric("quiver.recovery.replayed_bundles", "{bundle}", "Bundles brought back from the WAL."),
    Metric("quiver.damage.found", "{item}", "Damaged items found, by kind."),
)

_NAMES = frozenset(metric.name for metric in CATALOGUE)


class Metrics:
    """Counters by name and label, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, count: int = 1, *, label: str = "") -> None:
        """Raise one counter of the catalogue; ``label`` is its one label's value, if it has one."""
        if name not in _NAMES:
            raise KeyError(name)
        with self._lock:
            self._values[name, label] += count

    def read(self) -> Mapping[tuple[str, str], int]:
        """Copy all counters, keyed by (name, label)."""
        with self._lock:
            return dict(self._values)
