"""What the store counts and measures: one catalogue of names, and the counters themselves.

==========  ======================================================================
kind        what it is, and who keeps it
==========  ======================================================================
counter     grows since the store was opened; ``Metrics.add``
histogram   how long something took, since the store was opened; ``Metrics.observe``
gauge       what there is now; read when somebody asks, and kept by nobody
==========  ======================================================================

Names are OpenTelemetry's, dotted; ``prometheus_name`` spells them for Prometheus. Every metric has
the label ``core``, and at most one more, whose values are few: never a segment number or a path.
``quiver/observe/METRICS.md`` is this catalogue as a page.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["BY_NAME", "CATALOGUE", "Histogram", "Kind", "Metric", "Metrics", "prometheus_name"]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

_NS: Final = 1_000_000_000
_UNITS: Final = {"By": "bytes", "s": "seconds"}

_EVICTED: Final = ("steady", "size")
_DROPPED: Final = ("size", "age")
_POLICIES: Final = ("backpressure", "drop_oldest")
_DAMAGED: Final = ("wal", "segment", "acks", "progress")
_STATIONS: Final = ("wal", "segments", "acks", "quarantine", "dead_letters", "reserve")

_SYNC: Final = (
    *(0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0),
)
_FINALIZE: Final = (
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
_RECOVERY: Final = (
    *(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0),
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the catalogue."""

    name: str
    kind: Kind
    unit: str
    """As UCUM has it: ``By``, ``s``, and ``{bundle}`` for what is counted."""
    help: str
    label: str = ""
    """Its label beside ``core``; empty if it has none."""
    values: tuple[str, ...] = ()
    """All values of the label; empty where they are names, as those of subscribers are."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, inclusive; what is above the last is counted too."""


def _counter(
    name: str, unit: str, text: str, *, label: str = "", values: tuple[str, ...] = ()
) -> Metric:
    return Metric(name, "counter", unit, text, label, values)


def _gauge(
    name: str, unit: str, text: str, *, label: str = "", values: tuple[str, ...] = ()
) -> Metric:
    return Metric(name, "gauge", unit, text, label, values)


def _histogram(name: str, text: str, bounds: tuple[float, ...]) -> Metric:
    return Metric(name, "histogram", "s", text, bounds=bounds)


_WAL: Final = (
    _counter("quiver.wal.appended_bundles", "{bundle}", "Bundles taken by append."),
    _counter("quiver.wal.appended_bytes", "By", "Bytes of WAL entries written."),
    _counter(
        "quiver.wal.refused_bundles",
        "{bundle}",
        "Bundles taken without a wait for which the disk had no room then; receipts tell which.",
    ),
    _counter(
        "quiver.wal.throttled_appends",
        "{append}",
        "Appends that found no room: they waited, or were refused.",
    ),
    _counter("quiver.wal.throttled", "s", "Time that appends waited for room."),
    _counter("quiver.wal.syncs", "{sync}", "Calls of fdatasync on the WAL."),
    _histogram("quiver.wal.sync", "How long a sync of the WAL took.", _SYNC),
    _counter(
        "quiver.wal.reclaim_failures", "{attempt}", "Times that WAL space was not given back."
    ),
    _gauge("quiver.wal.bytes", "By", "Bytes of WAL files, holes not counted."),
    _gauge("quiver.wal.files", "{file}", "WAL files, the active one included."),
    _gauge(
        "quiver.wal.next_seq",
        "{bundle}",
        "Number of the next bundle: all ever appended, restarts included.",
    ),
)

_SEGMENT: Final = (
    _gauge("quiver.segment.open_bundles", "{bundle}", "Bundles that are in no segment yet."),
    _gauge("quiver.segment.open_bytes", "By", "Payloads of bundles that are in no segment yet."),
    _gauge("quiver.segment.open_age", "s", "Age of the oldest bundle that is in no segment yet."),
    _counter("quiver.segment.finalized_segments", "{segment}", "Segment files written."),
    _histogram(
        "quiver.segment.finalize", "How long it took to make a segment a durable file.", _FINALIZE
    ),
    _counter("quiver.segment.finalize_failures", "{attempt}", "Segment files that failed."),
    _gauge("quiver.segment.files", "{file}", "Segment files."),
    _gauge(
        "quiver.segment.next_seq",
        "{segment}",
        "Number of the next segment: all ever finalized, restarts included.",
    ),
    _counter("quiver.segment.missing", "{segment}", "Segment files found gone while still needed."),
    _counter(
        "quiver.segment.dropped",
        "{segment}",
        "Segments deleted with unacked bundles.",
        label="reason",
        values=_DROPPED,
    ),
    _counter(
        "quiver.segment.dropped_bundles",
        "{bundle}",
        "Bundles deleted before all had acked them, each counted once.",
        label="reason",
        values=_DROPPED,
    ),
    _counter(
        "quiver.segment.dropped_bytes",
        "By",
        "Bytes of segments deleted with unacked bundles.",
        label="reason",
        values=_DROPPED,
    ),
)

_SUBSCRIBER: Final = (
    _gauge(
        "quiver.subscriber.lag_segments",
        "{segment}",
        "Segments with a bundle that a subscriber has not resolved.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.lag_bundles",
        "{bundle}",
        "Bundles in segments that a subscriber has not resolved.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.lag_bytes",
        "By",
        "Their share of the segment files.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.oldest_unacked",
        "s",
        "Age of the oldest segment that a subscriber has not resolved; 0 if there is none.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.gaps",
        "{run}",
        "Runs of bundles that a subscriber has not resolved.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.claimed_bundles",
        "{bundle}",
        "Bundles in a subscriber's hands, of this process.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.waiting_bundles",
        "{bundle}",
        "Bundles that failed and wait for a retry.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.pinned",
        "By",
        "Segments that are kept for this subscriber alone.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.unseen",
        "s",
        "Time since a subscriber asked for bundles, or anything of it was written down.",
        label="subscriber",
    ),
    _gauge(
        "quiver.subscriber.paused",
        "1",
        "1 while a subscriber is paused, else 0.",
        label="subscriber",
    ),
    _counter(
        "quiver.subscriber.dropped_bundles",
        "{bundle}",
        "Bundles that a subscriber lost: dropped, expired or damaged.",
        label="subscriber",
    ),
    _counter(
        "quiver.subscriber.dead_letters",
        "{bundle}",
        "Bundles that a subscriber gave up.",
        label="subscriber",
    ),
    _counter("quiver.subscriber.orphans_removed", "{subscriber}", "Subscribers never seen again."),
    _counter("quiver.inbox.refused", "{file}", "Inboxes that could not be believed."),
)

_ACKS: Final = (
    _counter("quiver.acks.records", "{record}", "Records written to ack.log."),
    _gauge("quiver.acks.log_bytes", "By", "Size of ack.log."),
    _counter("quiver.acks.checkpoint_failures", "{attempt}", "Checkpoints that failed."),
)

_RETENTION: Final = (
    _counter(
        "quiver.retention.evicted_segments",
        "{segment}",
        "Segments deleted that everybody had acked.",
        label="reason",
        values=_EVICTED,
    ),
    _counter(
        "quiver.retention.evicted_bytes",
        "By",
        "Files of segments deleted that everybody had acked.",
        label="reason",
        values=_EVICTED,
    ),
    _counter(
        "quiver.retention.expired_segments", "{segment}", "Segments deleted because of their age."
    ),
    _counter(
        "quiver.retention.expired_bundles",
        "{bundle}",
        "Bundles deleted because of their age, acked or not.",
    ),
    _counter(
        "quiver.retention.size_emergencies",
        "{time}",
        "Times that the store became full and appends found no room.",
        label="policy",
        values=_POLICIES,
    ),
    _gauge(
        "quiver.disk.used",
        "By",
        "Bytes on disk that count for the cap, but for a few small files.",
        label="station",
        values=_STATIONS,
    ),
    _gauge("quiver.disk.cap", "By", "An even share of retention.size_cap; absent without a cap."),
)

_STORE: Final = (
    _histogram("quiver.recovery", "How long it took to open the store.", _RECOVERY),
    _counter("quiver.recovery.replayed_bundles", "{bundle}", "Bundles brought back from the WAL."),
    _counter("quiver.damage", "{item}", "Damaged items found.", label="kind", values=_DAMAGED),
    _gauge("quiver.store.stopped", "1", "1 after a write that no recovery has settled, else 0."),
    _gauge("quiver.build.info", "1", "Always 1; which Quiver this is.", label="version"),
)

CATALOGUE: Final[tuple[Metric, ...]] = (
    *_WAL,
    *_SEGMENT,
    *_SUBSCRIBER,
    *_ACKS,
    *_RETENTION,
    *_STORE,
)
"""Every metric there is, in the order of the flow."""

_COUNTED_BY: Final = {"quiver.wal.syncs": "quiver.wal.sync"}
"""Counters that a histogram counts as it is: they are not added to, so that an append pays once."""

BY_NAME: Final[Mapping[str, Metric]] = {metric.name: metric for metric in CATALOGUE}


def prometheus_name(metric: Metric) -> str:
    """Spell a name for Prometheus: underscores, the unit unless it ends so, ``_total``."""
    name = metric.name.replace(".", "_")
    unit = _UNITS.get(metric.unit, "")
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return f"{name}_total" if metric.kind == "counter" else name


@dataclass(frozen=True, slots=True)
class Histogram:
    """What was measured so far: how often up to each bound and above the last, and the sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """One more than there are bounds; each is that of its own bucket alone."""
    sum_ns: int


class _Measured:
    """One histogram while it grows."""

    __slots__ = ("bounds", "bounds_ns", "counts", "sum_ns")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.bounds_ns = [round(bound * _NS) for bound in bounds]
        self.counts = [0] * (len(bounds) + 1)
        self.sum_ns = 0


class Metrics:
    """Counters and histograms of one core, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], int] = {}
        self._measured = {m.name: _Measured(m.bounds) for m in CATALOGUE if m.bounds}
        self._listeners: tuple[Callable[[str, int], object], ...] = ()

    def add(self, name: str, count: int = 1, *, label: str = "") -> None:
        """Raise one counter of the catalogue; ``label`` is its one label's value, if it has one.

        What has the unit ``s`` is counted in nanoseconds. Raises KeyError for what the catalogue
        does not have.
        """
        key = name, label
        with self._lock:
            try:
                self._values[key] += count
            except KeyError:
                _check(name, label)
                self._values[key] = count

    def observe(self, name: str, duration_ns: int) -> None:
        """Put how long something took into one histogram of the catalogue."""
        measured = self._measured[name]
        with self._lock:
            measured.counts[bisect_left(measured.bounds_ns, duration_ns)] += 1
            measured.sum_ns += duration_ns
        for listener in self._listeners:
            listener(name, duration_ns)

    def read(self) -> Mapping[tuple[str, str], int]:
        """Copy all counters that were ever raised, keyed by (name, label)."""
        with self._lock:
            values = dict(self._values)
            for name, histogram in _COUNTED_BY.items():
                if count := sum(self._measured[histogram].counts):
                    values[name, ""] = count
            return values

    def read_histograms(self) -> Mapping[str, Histogram]:
        """Copy all histograms."""
        with self._lock:
            return {
                name: Histogram(measured.bounds, tuple(measured.counts), measured.sum_ns)
                for name, measured in self._measured.items()
            }

    def listen(self, listener: Callable[[str, int], object]) -> Callable[[], None]:
        """Call a function with each (name, nanoseconds) observed from now on.

        It is called by whoever observes, and must neither wait nor raise. What is given back,
        called, takes it out.
        """
        with self._lock:
            self._listeners += (listener,)

        def leave() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each != listener)

        return leave


def _check(name: str, label: str) -> None:
    """Raise KeyError unless there is such a counter, and it may have this label."""
    metric = BY_NAME[name]
    is_known = metric.label != "" and (not metric.values or label in metric.values)
    if metric.kind != "counter" or name in _COUNTED_BY or (label and not is_known):
        raise KeyError(name, label)
