"""What a pipeline is put together from, beside stores: whoever takes in, and whoever gives away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quiver.metrics import Metrics
from quiver.otel.nodes import Exporter, Intake
from quiver.otel.pipeline.codec import Codec
from quiver.otel.pipeline.plan import Node

__all__ = ["Feed", "Listening", "Parts"]


@dataclass(frozen=True, slots=True)
class Listening:
    """A receiver that is open."""

    addresses: Sequence[str]
    """Where it listens, with the ports that the system picked."""
    metrics: Metrics | None = None
    gauges: Callable[[], Mapping[str, float]] = field(default=dict)


@dataclass(frozen=True, slots=True)
class Feed:
    """What an exporter is fed from: one core of a store, or receivers if there is no store."""

    core: int
    store_id: str = ""


class Parts(Protocol):
    """Makes receivers and exporters of nodes."""

    @property
    def codec(self) -> Codec:
        """What makes Arrow of OTLP, and OTLP of Arrow."""

    def exporter(self, node: Node, feed: Feed) -> Exporter:
        """Make an exporter; it connects when there is something to send."""

    def listen(self, node: Node, intake: Intake, *, wants_arrow: bool) -> Listening:
        """Open a receiver; raises InputError if it cannot listen there."""

    def close(self, grace_seconds: float) -> None:
        """Close all receivers; behind this nobody calls their intakes any more.

        Who is in work is answered, and waited for no longer than so long.
        """
