"""Producers and consumers of queues for Prometheus.

::

    REGISTRY.register(QueueCollector({"events": producer}))

Needs ``pip install 'quiver-store[prometheus]'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

from quiver.extras import needed
from quiver.metrics import SHIP_CATALOGUE, Histogram, Metric, Metrics, prometheus_name
from quiver.observe.readings import scaled
from quiver.units import SECOND

with needed("prometheus_client", extra="prometheus"):
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.registry import Collector
    from prometheus_client.utils import floatToGoString

__all__ = ["End", "QueueCollector"]


class End(Protocol):
    """One end of a queue: a ``Producer`` or a ``Consumer``."""

    metrics: Metrics

    def gauges(self) -> Mapping[str, float]:
        """Give what there is now, by name of the metric."""
        ...


_Plain: TypeAlias = CounterMetricFamily | GaugeMetricFamily
_Family: TypeAlias = _Plain | HistogramMetricFamily


class QueueCollector(Collector):
    """Gives what ends of queues count, with the name of the queue as the label ``queue``.

    Several ends under one name are added up; of a gauge the largest counts.
    """

    def __init__(self, watched: Mapping[str, End | Sequence[End]]) -> None:
        self._watched = {
            name: tuple(ends) if isinstance(ends, Sequence) else (ends,)
            for name, ends in watched.items()
        }

    def describe(self) -> Iterator[_Family]:
        """Give each metric without a number, so that a registry knows their names."""
        for metric in SHIP_CATALOGUE:
            yield _histogram(metric) if metric.kind == "histogram" else _counted(metric)

    def collect(self) -> Iterator[_Family]:
        """Look at each end once."""
        plain = {each.name: _counted(each) for each in SHIP_CATALOGUE if each.kind != "histogram"}
        long = {each.name: _histogram(each) for each in SHIP_CATALOGUE if each.kind == "histogram"}
        for queue, ends in self._watched.items():
            for (name, *labels), value in _plain(ends).items():
                plain[name].add_metric([queue, *labels], value)
            for name, found in _histograms(ends).items():
                bounds = [*map(floatToGoString, found.bounds), "+Inf"]
                buckets = list(zip(bounds, accumulate(found.counts), strict=True))
                long[name].add_metric([queue], buckets, found.sum_ns / SECOND)
        yield from (family for family in (*plain.values(), *long.values()) if family.samples)


def _counted(metric: Metric) -> _Plain:
    name = prometheus_name(metric)
    labels = ["queue", *([metric.label] if metric.label else [])]
    if metric.kind == "counter":
        return CounterMetricFamily(name.removesuffix("_total"), metric.help, labels=labels)
    return GaugeMetricFamily(name, metric.help, labels=labels)


def _histogram(metric: Metric) -> HistogramMetricFamily:
    return HistogramMetricFamily(prometheus_name(metric), metric.help, labels=["queue"])


def _plain(ends: Sequence[End]) -> dict[tuple[str, ...], float]:
    """Give counters and gauges by name and label; a counter that was never raised is 0."""
    found: dict[tuple[str, ...], float] = {}
    for end in ends:
        counted, gauges = end.metrics.read(), end.gauges()
        for metric in end.metrics.catalogue:
            if metric.kind == "gauge" and metric.name in gauges:
                found[(metric.name,)] = max(gauges[metric.name], found.get((metric.name,), 0))
            elif metric.kind == "counter":
                for label in metric.values or ("",):
                    key = (metric.name, label) if label else (metric.name,)
                    value = scaled(metric, counted.get((metric.name, label), 0))
                    found[key] = found.get(key, 0) + value
    return found


def _histograms(ends: Sequence[End]) -> dict[str, Histogram]:
    found: dict[str, Histogram] = {}
    for end in ends:
        for name, one in end.metrics.read_histograms().items():
            other = found.get(name)
            if other is not None:
                counts = (a + b for a, b in zip(one.counts, other.counts, strict=True))
                one = Histogram(one.bounds, tuple(counts), one.sum_ns + other.sum_ns)  # noqa: PLW2901
            found[name] = one
    return found
