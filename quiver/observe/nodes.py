"""The nodes of a pipeline for Prometheus, beside the stores in it; each has the label ``node``.

Needs ``pip install 'quiver-store[prometheus]'``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quiver.catalogue_otel import TELEMETRY_CATALOGUE
from quiver.extras import needed
from quiver.metrics import Metric
from quiver.observe.prometheus import Collector, Family, family_of, histogram_of
from quiver.observe.sources import Watched
from quiver.otel.pipeline.status import NodeStatus

with needed("prometheus_client", extra="prometheus"):
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.registry import Collector as _Collector

__all__ = ["NodeCollector", "exposed"]


class NodeCollector(_Collector):
    """Gives what nodes counted, and what there is of each now."""

    def __init__(self, nodes: Sequence[NodeStatus]) -> None:
        self._nodes = tuple(nodes)

    def collect(self) -> Iterator[Family]:
        """Give each metric that any node has something to say of."""
        for metric in TELEMETRY_CATALOGUE:
            if metric.kind == "histogram":
                name = metric.name
                nodes = [node for node in self._nodes if name in node.histograms]
                if nodes:
                    found = [([node.name], node.histograms[name]) for node in nodes]
                    yield histogram_of(metric, ("node",), found)
                continue
            labels = ("node", metric.label) if metric.label else ("node",)
            family = family_of(metric, labels)
            for node in self._nodes:
                for label, value in _values(metric, node):
                    family.add_metric([node.name, *([label] if metric.label else [])], value)
            if family.samples:
                yield family


def _values(metric: Metric, node: NodeStatus) -> Iterator[tuple[str, float]]:
    if metric.kind == "gauge":
        if metric.name in node.gauges:
            yield "", node.gauges[metric.name]
        return
    if metric.name in node.counts:
        yield "", node.counts[metric.name]
    for label in metric.values:
        name = f"{metric.name}[{label}]"
        if name in node.counts:
            yield label, node.counts[name]


def exposed(watched: Sequence[Watched], nodes: Sequence[NodeStatus]) -> tuple[bytes, str]:
    """Give a page for Prometheus, and its type."""
    registry = CollectorRegistry()
    for each in watched:
        registry.register(Collector(each))
    registry.register(NodeCollector(nodes))
    return generate_latest(registry), CONTENT_TYPE_LATEST
