"""What is said of each metric of the catalogue right now: from counters, and from what there is.

A reading is a number with the two labels that a metric may have. Counters that were never raised
are given as 0 where all values of their label are known, so that a first event is a step and not a
new line. What nobody knows is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quiver import __version__
from quiver.engine import CoreStats, SubscriberStats
from quiver.metrics import BY_NAME, CATALOGUE, Metric
from quiver.units import SECOND

__all__ = ["Number", "Reading", "read_counters", "read_gauges", "scaled"]

Number = int | float


@dataclass(frozen=True, slots=True)
class Reading:
    """One number, in the unit of its metric."""

    metric: Metric
    core: int
    label: str
    """Value of the metric's own label; empty if it has none."""
    value: Number


def scaled(metric: Metric, value: int) -> Number:
    """Give what was counted in the unit of its metric: time is counted in nanoseconds."""
    return value / SECOND if metric.unit == "s" else value


def read_counters(
    core: int, counted: Mapping[tuple[str, str], int], *, subscribers: Iterable[str] = ()
) -> Iterator[Reading]:
    """Go through all counters of one core, in the order of the catalogue.

    ``subscribers`` are those who are registered.
    """
    known = {"subscriber": tuple(subscribers), "": ("",)}
    by_name: dict[str, dict[str, int]] = {}
    for (name, label), value in counted.items():
        by_name.setdefault(name, {})[label] = value
    for metric in CATALOGUE:
        if metric.kind == "counter":
            found = dict.fromkeys(metric.values or known[metric.label], 0)
            found.update(by_name.get(metric.name, {}))
            for label, value in found.items():
                if value or label or not metric.label:
                    yield Reading(metric, core, label, scaled(metric, value))


def read_gauges(stats: CoreStats) -> Iterator[Reading]:
    """Go through all gauges that are known of one core."""
    core = stats.core
    yield Reading(BY_NAME["quiver.build.info"], core, __version__, 1)
    for name, of_core in _OF_CORE.items():
        value = of_core(stats)
        if value is not None:
            yield Reading(BY_NAME[name], core, "", scaled(BY_NAME[name], value))
    for station, of_station in _USED.items():
        yield Reading(BY_NAME["quiver.disk.used"], core, station, of_station(stats))
    for subscriber in stats.subscribers:
        for name, of_subscriber in _OF_SUBSCRIBER.items():
            value = of_subscriber(subscriber, stats.at_ns)
            if value is not None:
                metric = BY_NAME[name]
                yield Reading(metric, core, subscriber.name, scaled(metric, value))


_OF_CORE: Final[Mapping[str, Callable[[CoreStats], int | None]]] = {
    "quiver.wal.bytes": lambda stats: stats.wal_bytes,
    "quiver.wal.files": lambda stats: stats.wal_files,
    "quiver.wal.next_seq": lambda stats: stats.next_wal_seq,
    "quiver.segment.open_bundles": lambda stats: stats.open_bundles,
    "quiver.segment.open_bytes": lambda stats: stats.open_bytes,
    "quiver.segment.open_age": lambda stats: stats.open_age_ns or 0,
    "quiver.segment.files": lambda stats: stats.segments,
    "quiver.segment.next_seq": lambda stats: stats.next_segment_seq,
    "quiver.acks.log_bytes": lambda stats: stats.acks_log_bytes,
    "quiver.disk.cap": lambda stats: stats.cap_bytes,
    "quiver.store.stopped": lambda stats: None if stats.is_stopped is None else +stats.is_stopped,
}

_USED: Final[Mapping[str, Callable[[CoreStats], int]]] = {
    "wal": lambda stats: stats.wal_bytes,
    "segments": lambda stats: stats.segment_disk_bytes,
    "acks": lambda stats: stats.acks_bytes,
    "quarantine": lambda stats: stats.quarantine_bytes,
    "dead_letters": lambda stats: stats.dead_letter_bytes,
    "reserve": lambda stats: stats.reserve_bytes,
}

_OF_SUBSCRIBER: Final[Mapping[str, Callable[[SubscriberStats, int], int | None]]] = {
    "quiver.subscriber.lag_segments": lambda one, _: one.lag.segment_count,
    "quiver.subscriber.lag_bundles": lambda one, _: one.lag.bundle_count,
    "quiver.subscriber.lag_bytes": lambda one, _: one.lag.byte_count,
    "quiver.subscriber.oldest_unacked": lambda one, _: one.lag.oldest_age_ns or 0,
    "quiver.subscriber.gaps": lambda one, _: one.gap_count,
    "quiver.subscriber.claimed_bundles": lambda one, _: one.claimed_count,
    "quiver.subscriber.waiting_bundles": lambda one, _: one.lag.waiting_count,
    "quiver.subscriber.pinned": lambda one, _: one.lag.pinned_bytes,
    "quiver.subscriber.unseen": lambda one, now: _since(one.lag.last_seen_ns, now),
    "quiver.subscriber.paused": lambda one, _: int(one.lag.is_paused),
}


def _since(seen_ns: int, now_ns: int) -> int | None:
    """Say how long ago it was; a clock may have been set back, and 0 is a time nobody knows."""
    return max(now_ns - seen_ns, 0) if seen_ns else None
