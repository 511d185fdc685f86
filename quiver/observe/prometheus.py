"""Stores for Prometheus: a collector that reads them when it is scraped, and an endpoint for it.

::

    from prometheus_client import REGISTRY
    from quiver.observe.prometheus import Collector

    REGISTRY.register(Collector(store))        # beside the metrics of your own program

    with serve(store, "127.0.0.1:9464"):       # or an endpoint of its own
        ...

Needs ``pip install 'quiver-store[prometheus]'``. Several stores go into one collector; a registry
refuses a second one, since both would give the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

from quiver.addresses import parse_address
from quiver.errors import InputError
from quiver.extras import needed
from quiver.metrics import CATALOGUE, Histogram, Metric, prometheus_name
from quiver.observe.sources import Found, Watched, sources_of
from quiver.units import SECOND

with needed("prometheus_client", extra="prometheus"):
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.registry import Collector as _Collector
    from prometheus_client.utils import floatToGoString

__all__ = [
    "DEFAULT_ADDRESS",
    "Collector",
    "Endpoint",
    "Family",
    "family_of",
    "histogram_of",
    "parse_address",
    "serve",
]

DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
"""The port that OpenTelemetry's exporters for Prometheus have."""

_Plain = CounterMetricFamily | GaugeMetricFamily
Family = _Plain | HistogramMetricFamily


class Collector(_Collector):
    """Gives all metrics of what it watches, as they are at each scrape.

    ``watched`` is a store, several, stores by name (the label ``store``), or an Observer.
    Histograms and counters begin when a store is opened; an Observer has gauges alone. Raises
    InputError if two stores would give the same metrics.
    """

    def __init__(self, watched: Watched) -> None:
        self._sources = sources_of(watched)

    def describe(self) -> Iterator[Family]:
        """Give each metric without a number, so that a registry knows their names."""
        for metric in CATALOGUE:
            if metric.kind == "histogram":
                yield HistogramMetricFamily(prometheus_name(metric), metric.help)
            else:
                yield family_of(metric, ())

    def collect(self) -> Iterator[Family]:
        """Look at everything once, and give each metric that there is something to say of."""
        found = [each for source in self._sources for each in source.collect()]
        outer = ("core", "store") if any(each.store for each in found) else ("core",)
        families: dict[str, _Plain] = {}
        for each in found:
            for reading in each.readings:
                metric = reading.metric
                labels = (*outer, metric.label) if metric.label else outer
                family = families.setdefault(metric.name, family_of(metric, labels))
                own = (reading.label,) if metric.label else ()
                family.add_metric([*_outer(each, outer), *own], reading.value)
        for metric in CATALOGUE:
            if metric.kind == "histogram":
                yield from _histograms(metric, found, outer)
            elif metric.name in families:
                yield families[metric.name]


def _outer(found: Found, labels: Sequence[str]) -> list[str]:
    return [str(found.core), found.store][: len(labels)]


def family_of(metric: Metric, labels: Sequence[str]) -> _Plain:
    """Make the family of a counter or a gauge, without a number yet."""
    name = prometheus_name(metric)
    if metric.kind == "counter":
        return CounterMetricFamily(name.removesuffix("_total"), metric.help, labels=labels)
    return GaugeMetricFamily(name, metric.help, labels=labels)


def _histograms(
    metric: Metric, found: Sequence[Found], labels: Sequence[str]
) -> Iterator[HistogramMetricFamily]:
    measured = [
        (_outer(each, labels), each.histograms[metric.name])
        for each in found
        if metric.name in each.histograms
    ]
    if measured:
        yield histogram_of(metric, labels, measured)


def histogram_of(
    metric: Metric, labels: Sequence[str], found: Iterable[tuple[Sequence[str], Histogram]]
) -> HistogramMetricFamily:
    """Make the family of a histogram of what was measured under values of its labels."""
    family = HistogramMetricFamily(prometheus_name(metric), metric.help, labels=labels)
    for values, histogram in found:
        family.add_metric(list(values), _buckets(histogram), histogram.sum_ns / SECOND)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Give how many were at most as long as each bound; the last one is all of them."""
    bounds = [*(floatToGoString(bound) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))


# endpoint --------------------------------------------------------------------------------------


class Endpoint:
    """An HTTP server, in threads of its own, that answers scrapes until it is closed."""

    def __init__(self, server: Any, thread: Thread) -> None:  # noqa: ANN401
        self._server, self._thread = server, thread
        self._is_open = True

    @property
    def url(self) -> str:
        """Where metrics are."""
        host, port = self._server.server_address[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def close(self) -> None:
        """Stop answering; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __enter__(self) -> Self:
        """Give the endpoint itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop answering."""
        self.close()


def serve(watched: Watched, address: str = DEFAULT_ADDRESS) -> Endpoint:
    """Answer scrapes at ``HOST:PORT``, or at a port of this machine alone if no host is named.

    Whoever reaches the address can read names of subscribers and how much there is, and no data.
    Port 0 takes a free one; ``Endpoint.url`` tells it. Raises InputError if it cannot listen there.
    """
    host, port = parse_address(address)
    registry = CollectorRegistry()
    registry.register(Collector(watched))
    start: Callable[..., tuple[Any, Thread]] = start_http_server
    try:
        return Endpoint(*start(port, addr=host, registry=registry))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}", hint="name another HOST:PORT"
        ) from error
