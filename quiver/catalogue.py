"""The catalogue: each metric there is, with its unit, its label and what it means.

``CATALOGUE`` is of a store, ``SHIP_CATALOGUE`` of producers and consumers of a queue. Names are
OpenTelemetry's, dotted; ``prometheus_name`` spells them for Prometheus. ``metrics`` counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = [
    "BY_NAME",
    "CATALOGUE",
    "CONSUMER_CATALOGUE",
    "PRODUCER_CATALOGUE",
    "SHIP_CATALOGUE",
    "Kind",
    "Metric",
    "prometheus_name",
]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]

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
    """Its label beside ``core``, or beside ``queue``; empty if it has none."""
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
    _counter(
        "quiver.segment.forgone_segments",
        "{segment}",
        "Segments not written, since all subscribers had all of them before.",
    ),
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

_ROLES: Final = ("producer", "consumer")

_REMOTE: Final = (
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    *(180.0, 600.0),
)

_PRODUCER: Final = (
    _counter("quiver.ship.flushed_batches", "{batch}", "Batches that are in the queue."),
    _counter("quiver.ship.flushed_records", "{record}", "Records in them."),
    _counter("quiver.ship.flushed_bytes", "By", "Their bytes before compression."),
    _counter("quiver.ship.written_bytes", "By", "Bytes of objects that they became."),
    _histogram("quiver.ship.flush", "How long a put and its append took.", _REMOTE),
    _counter(
        "quiver.ship.flush_failures", "{batch}", "Batches whose callers were told of an error."
    ),
    _counter(
        "quiver.ship.late_uploads", "{upload}", "Uploads too slow to be appended under their name."
    ),
    _counter("quiver.ship.throttled_calls", "{call}", "Calls that waited for memory."),
    _gauge("quiver.ship.waiting_bytes", "By", "Memory of what waits and of what is being sent."),
)

_MANIFEST: Final = (
    _counter(
        "quiver.ship.manifest_writes",
        "{write}",
        "Writes of the manifest that were tried.",
        label="role",
        values=_ROLES,
    ),
    _counter(
        "quiver.ship.manifest_conflicts",
        "{write}",
        "Writes before which somebody else had written.",
        label="role",
        values=_ROLES,
    ),
)

_CONSUMER: Final = (
    _counter("quiver.ship.collected_batches", "{batch}", "Batches that were fetched."),
    _counter("quiver.ship.collected_records", "{record}", "Records in them."),
    _counter("quiver.ship.collected_bytes", "By", "Bytes of their objects."),
    _histogram("quiver.ship.fetch", "How long it took to get and decode a batch.", _REMOTE),
    _counter("quiver.ship.acks", "{batch}", "Batches that were acked."),
    _counter("quiver.ship.descriptors", "{batch}", "Batches handed out to be fetched elsewhere."),
    _counter("quiver.ship.repeats", "{call}", "Calls left out that were delivered before."),
    _counter(
        "quiver.ship.dead_letters", "{batch}", "Batches passed over that could not be delivered."
    ),
    _gauge("quiver.ship.lag", "s", "Age of the newest record in the batch delivered last."),
    _gauge(
        "quiver.ship.queue_length",
        "{batch}",
        "Entries in the manifest at the last look, acked ones that are still there included.",
    ),
    _counter("quiver.ship.swept_objects", "{object}", "Objects that the sweeper deleted."),
    _counter("quiver.ship.swept_bytes", "By", "Their bytes."),
    _counter("quiver.ship.sweep_failures", "{object}", "Objects that could not be deleted."),
    _histogram("quiver.ship.sweep", "How long a round of the sweeper took.", _REMOTE),
)

CATALOGUE: Final[tuple[Metric, ...]] = (
    *_WAL,
    *_SEGMENT,
    *_SUBSCRIBER,
    *_ACKS,
    *_RETENTION,
    *_STORE,
)
"""Every metric of a store, in the order of the flow."""

PRODUCER_CATALOGUE: Final[tuple[Metric, ...]] = (*_PRODUCER, *_MANIFEST)
"""Every metric of who appends to a queue."""

CONSUMER_CATALOGUE: Final[tuple[Metric, ...]] = (*_MANIFEST, *_CONSUMER)
"""Every metric of who reads a queue, and of the sweeper that works for him."""

SHIP_CATALOGUE: Final[tuple[Metric, ...]] = (*_PRODUCER, *_MANIFEST, *_CONSUMER)
"""Both together."""

BY_NAME: Final[Mapping[str, Metric]] = {
    metric.name: metric for metric in (*CATALOGUE, *SHIP_CATALOGUE)
}


def prometheus_name(metric: Metric) -> str:
    """Spell a name for Prometheus: underscores, the unit unless it ends so, ``_total``."""
    name = metric.name.replace(".", "_")
    unit = _UNITS.get(metric.unit, "")
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    return f"{name}_total" if metric.kind == "counter" else name
