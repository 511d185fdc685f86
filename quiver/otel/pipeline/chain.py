"""Processors put together: what a way through some nodes makes of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quiver.catalogue_otel import PROCESSOR_CATALOGUE
from quiver.metrics import Metrics
from quiver.otel.batch import Batch
from quiver.otel.pipeline.codec import Codec
from quiver.otel.pipeline.plan import Node
from quiver.otel.pipeline.processors import Attributes, Filter
from quiver.otel.pipeline.routes import Process

__all__ = ["Chain", "Step", "steps_of"]


class Step:
    """One processor, shared by all ways through it, and how many items it took out."""

    def __init__(self, node: Node) -> None:
        """Make what the node says."""
        self.name = node.name
        self._process = _process_of(node)
        self.metrics = Metrics(PROCESSOR_CATALOGUE)

    def __call__(self, batch: Batch) -> list[Batch]:
        """Process a batch, which is to be Arrow."""
        left = list(self._process(batch))
        gone = batch.items - sum(each.items for each in left)
        self.metrics.add("quiver.processor.items", batch.items)
        self.metrics.add("quiver.processor.dropped_items", gone)
        return left


def _process_of(node: Node) -> Process:
    if node.kind == "attributes":
        return Attributes(node.options["actions"])
    keep = node.options["keep"]
    return Filter(keep or node.options["drop"], keep=keep is not None)


def steps_of(nodes: Mapping[str, Node]) -> dict[str, Step]:
    """Make all processors of a pipeline, by name."""
    return {
        node.name: Step(node)
        for node in nodes.values()
        if node.role == "processor" and not node.is_store
    }


class Chain:
    """Some processors, one behind the other."""

    def __init__(self, steps: Sequence[Step], codec: Codec) -> None:
        self._steps, self._codec = tuple(steps), codec

    def __call__(self, batch: Batch) -> list[Batch]:
        """Give what is left of a batch, perhaps in parts."""
        left = list(self._codec.decoded(batch))
        for step in self._steps:
            left = [made for each in left for made in step(each)]
        return left

    def convert(self, batch: Batch) -> Batch | None:
        """Do the same, and give one batch; None if nothing is left."""
        return self._codec.joined(batch.signal, self(batch))
