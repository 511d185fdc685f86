"""What the store counts and measures: one catalogue of names, and the counters themselves.

==========  ======================================================================
kind        what it is, and who keeps it
==========  ======================================================================
counter     grows since the store was opened; ``Metrics.add``
histogram   how long something took, since the store was opened; ``Metrics.observe``
gauge       what there is now; read when somebody asks, and kept by nobody
==========  ======================================================================

Every metric of a store has the label ``core``, every one of a queue the label ``queue``, every one
of a telemetry pipeline the label ``node``, and at most one more, whose values are few: never a
segment number or a path. ``catalogue`` and ``catalogue_otel`` have them all, and
``quiver/observe/METRICS.md`` is the catalogue as a page.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quiver.catalogue import (
    BY_NAME,
    CATALOGUE,
    CONSUMER_CATALOGUE,
    PRODUCER_CATALOGUE,
    SHIP_CATALOGUE,
    Kind,
    Metric,
    prometheus_name,
)

__all__ = [
    "BY_NAME",
    "CATALOGUE",
    "CONSUMER_CATALOGUE",
    "PRODUCER_CATALOGUE",
    "SHIP_CATALOGUE",
    "Histogram",
    "Kind",
    "Metric",
    "Metrics",
    "prometheus_name",
]

_NS: Final = 1_000_000_000

_COUNTED_BY: Final = {"quiver.wal.syncs": "quiver.wal.sync"}
"""Counters that a histogram counts as it is: they are not added to, so that an append pays once."""


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
    """Counters and histograms of one core or queue, safe to use from several threads."""

    def __init__(self, catalogue: Iterable[Metric] = CATALOGUE) -> None:
        self.catalogue = tuple(catalogue)
        self._by_name = {metric.name: metric for metric in self.catalogue}
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], int] = {}
        self._measured = {m.name: _Measured(m.bounds) for m in self.catalogue if m.bounds}
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
                _check(self._by_name[name], label)
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
                measured = self._measured.get(histogram)
                if measured is not None and (count := sum(measured.counts)):
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


def _check(metric: Metric, label: str) -> None:
    """Raise KeyError unless it is a counter, and may have this label."""
    is_known = metric.label != "" and (not metric.values or label in metric.values)
    if metric.kind != "counter" or metric.name in _COUNTED_BY or (label and not is_known):
        raise KeyError(metric.name, label)
