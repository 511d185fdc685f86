"""How the nodes of a running pipeline are, as plain values that travel between processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from quiver.metrics import Histogram, Metrics

__all__ = ["NodeStatus", "counted_only", "counts_of", "histograms_merged", "merged"]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node: what it counted since it was started, and what there is now."""

    name: str
    role: str
    kind: str
    addresses: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """By the name of the metric, with the value of its label in brackets if it has one."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give it as JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> NodeStatus:
        """Make it of what ``as_dict`` gave."""
        histograms = {
            name: Histogram(tuple(one["bounds"]), tuple(one["counts"]), one["sum_ns"])
            for name, one in found["histograms"].items()
        }
        addresses = tuple(found["addresses"])
        return cls(**{**found, "addresses": addresses, "histograms": histograms})


def counts_of(metrics: Metrics | None) -> dict[str, int]:
    """Read counters under names that hold their label."""
    if metrics is None:
        return {}
    return {
        f"{name}[{label}]" if label else name: value
        for (name, label), value in metrics.read().items()
    }


def counted_only(nodes: Sequence[NodeStatus]) -> list[NodeStatus]:
    """Give what nodes of a process counted that is there no more: of it nothing is now."""
    return [replace(node, addresses=(), gauges={}, problem="") for node in nodes]


def merged(parts: Iterable[Sequence[NodeStatus]]) -> list[NodeStatus]:
    """Add up what several processes of one pipeline say of its nodes."""
    found: dict[str, NodeStatus] = {}
    for nodes in parts:
        for node in nodes:
            before = found.get(node.name)
            found[node.name] = node if before is None else _sum(before, node)
    return list(found.values())


def _sum(one: NodeStatus, two: NodeStatus) -> NodeStatus:
    counts = {
        name: one.counts.get(name, 0) + two.counts.get(name, 0)
        for name in {**one.counts, **two.counts}
    }
    gauges = {
        name: one.gauges.get(name, 0) + two.gauges.get(name, 0)
        for name in {**one.gauges, **two.gauges}
    }
    return NodeStatus(
        one.name,
        one.role,
        one.kind,
        tuple(dict.fromkeys((*one.addresses, *two.addresses))),
        counts,
        gauges,
        histograms_merged((one.histograms, two.histograms)),
        one.problem or two.problem,
    )


def histograms_merged(parts: Iterable[Mapping[str, Histogram]]) -> dict[str, Histogram]:
    """Add up what was measured in several places."""
    found: dict[str, Histogram] = {}
    for part in parts:
        for name, one in part.items():
            before = found.get(name)
            if before is None:
                found[name] = one
            else:
                counts = tuple(a + b for a, b in zip(before.counts, one.counts, strict=True))
                found[name] = Histogram(one.bounds, counts, before.sum_ns + one.sum_ns)
    return found
