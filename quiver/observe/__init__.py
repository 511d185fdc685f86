"""A store watched from outside: numbers of each station, for machines and for people.

::

    from quiver.observe import Collector, Observer, instrument, serve

    with serve(store):                      # Prometheus, at http://127.0.0.1:9464/metrics
        ...
    REGISTRY.register(Collector(store))     # or among the metrics of your own program
    instrument(store, meter)                # OpenTelemetry
    with Observer("store") as observer:     # a folder that another process writes
        print(observer.look().cores)

===============  ==================================================================
``snapshot``     all cores of a folder as numbers, without a lock
``open_log``     of these, how much of the log is in no segment yet
``readings``     what is said of each metric of the catalogue
``sources``      whom a collector asks: open stores, or a folder
``prometheus``   a collector, and an HTTP endpoint (``quiver-store[prometheus]``)
``queues``       both ends of queues, for Prometheus
``otel``         instruments of a meter (``quiver-store[otel]``)
===============  ==================================================================

``METRICS.md`` lists the metrics; ``dashboard.json`` (Grafana) and ``alerts.yml`` (Prometheus) are
made of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from quiver.observe.snapshot import Observer, StoreStats

if TYPE_CHECKING:
    from quiver.observe.otel import Instrumented, instrument
    from quiver.observe.prometheus import Collector, Endpoint, serve
    from quiver.observe.queues import QueueCollector

__all__ = [
    "Collector",
    "Endpoint",
    "Instrumented",
    "Observer",
    "QueueCollector",
    "StoreStats",
    "instrument",
    "serve",
]

_LAZY = {
    "Collector": "quiver.observe.prometheus",
    "Endpoint": "quiver.observe.prometheus",
    "Instrumented": "quiver.observe.otel",
    "QueueCollector": "quiver.observe.queues",
    "instrument": "quiver.observe.otel",
    "serve": "quiver.observe.prometheus",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load what needs an extra only when it is asked for."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'quiver.observe' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
