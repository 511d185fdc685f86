"""Stores for OpenTelemetry: instruments of a meter that read them when somebody collects.

::

    from quiver.observe.otel import instrument

    with instrument(store, meter):         # or instrument(store), with the global provider's
        ...

Counters and gauges are observable instruments. OpenTelemetry has none for histograms, so each
duration goes into a histogram of the meter at the moment it is measured, with our bounds as its
advice; the one recovery of each store, which was before that, is told at once. Needs
``pip install 'quiver-store[otel]'``, and an SDK, which is yours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from quiver import __version__
from quiver.extras import needed
from quiver.metrics import CATALOGUE, Metric
from quiver.observe.readings import Reading
from quiver.observe.sources import Source, StoreSource, Watched, sources_of
from quiver.units import SECOND

with needed("opentelemetry.metrics", extra="otel"):
    from opentelemetry.metrics import (
        CallbackOptions,
        Histogram,
        Meter,
        Observation,
        get_meter,
    )

__all__ = ["Instrumented", "instrument"]

_RECOVERY = "quiver.recovery"


def instrument(watched: Watched, meter: Meter | None = None) -> Instrumented:
    """Make an instrument of a meter for each metric of the catalogue.

    ``watched`` is a store, several, stores by name (the attribute ``store``), or an Observer, which
    has gauges alone. Raises InputError if two stores would give the same metrics.
    """
    sources = sources_of(watched)
    meter = get_meter("quiver", __version__) if meter is None else meter
    look = _Look(sources)
    has_stores = any(isinstance(source, StoreSource) for source in sources)
    histograms = {}
    for metric in CATALOGUE:
        about = {"unit": metric.unit, "description": metric.help}
        callback = look.callback(metric)
        if metric.kind == "gauge":
            meter.create_observable_gauge(metric.name, [callback], **about)
        elif metric.kind == "counter" and has_stores:
            meter.create_observable_counter(metric.name, [callback], **about)
        elif has_stores:
            histograms[metric.name] = meter.create_histogram(
                metric.name, explicit_bucket_boundaries_advisory=metric.bounds, **about
            )
    leave = [_forward(source, histograms) for source in sources if isinstance(source, StoreSource)]
    return Instrumented(look, leave)


class Instrumented:
    """What was instrumented. A meter keeps its instruments; closing this leaves them empty."""

    def __init__(self, look: _Look, leave: Iterable[Callable[[], None]]) -> None:
        self._look, self._leave = look, leave

    def close(self) -> None:
        """Report nothing any more."""
        self._look.sources = ()
        for leave in self._leave:
            leave()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report nothing any more."""
        self.close()


def _forward(source: StoreSource, histograms: dict[str, Histogram]) -> Callable[[], None]:
    """Hand each duration on, from now on."""
    attributes = _attributes(source.store.core, source.name)
    metrics = source.store.instruments

    def record(name: str, duration_ns: int) -> None:
        histograms[name].record(duration_ns / SECOND, attributes)

    recovery = metrics.read_histograms()[_RECOVERY]
    leave = metrics.listen(record)
    if sum(recovery.counts) == 1:
        record(_RECOVERY, recovery.sum_ns)
    return leave


class _Look:
    """One look at all sources for all instruments of one collection.

    Each instrument has a callback of its own. The first that asks a second time begins a new
    collection, and so a new look.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = tuple(sources)
        self._turn = threading.Lock()
        self._asked: set[str] = set()
        self._found: dict[str, list[Observation]] = {}

    def callback(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Give what an instrument calls."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            with self._turn:
                if not self._asked or metric.name in self._asked:
                    self._found = self._take()
                    self._asked.clear()
                self._asked.add(metric.name)
                return self._found.get(metric.name, [])

        return observe

    def _take(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {}
        for source in self.sources:
            for each in source.collect():
                for reading in each.readings:
                    attributes = _attributes(each.core, each.store, reading)
                    observation = Observation(reading.value, attributes)
                    found.setdefault(reading.metric.name, []).append(observation)
        return found


def _attributes(core: int, store: str, reading: Reading | None = None) -> dict[str, str]:
    """Give the labels of a reading; ``core`` is text, as it is everywhere."""
    found = {"core": str(core)}
    if store:
        found["store"] = store
    if reading is not None and reading.metric.label:
        found[reading.metric.label] = reading.label
    return found
