"""What a delivery counts and tells of."""

from __future__ import annotations

from collections.abc import Sequence

from quiver.catalogue_exporters import EXPORTER_CATALOGUE
from quiver.errors import QuiverError
from quiver.events import Events
from quiver.metrics import Metrics
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Delivered, Outcome, Refused, Retry

__all__ = ["Report"]


class Report:
    """The counters and the events of one exporter.

    A refusal may quote what was sent, so only its first word is told of; the rest stands beside the
    dead letter. Why something is sent again is told in full, once until it is over.
    """

    def __init__(self, name: str, metrics: Metrics | None = None) -> None:
        """Count in ``metrics``, which are of the catalogue of exporters."""
        self.metrics = metrics or Metrics(EXPORTER_CATALOGUE)
        self.events = Events(node=name)

    def _add(self, name: str, count: int = 1, *, label: str = "") -> None:
        if count:
            self.metrics.add(name, count, label=label)

    def told(
        self, delivered: Sequence[Delivered], outcomes: Sequence[Outcome], *, took_ns: int
    ) -> None:
        """Count what became of the batches of one call."""
        self.metrics.observe("quiver.exporter.export", took_ns)
        for each, outcome in zip(delivered, outcomes, strict=True):
            if isinstance(outcome, Accepted):
                self._accepted(each.batch, outcome)
            elif isinstance(outcome, Refused):
                self.refused(each.batch, outcome)
            else:
                self._add("quiver.exporter.retried_batches")
                self.events.begin("exporter.failed", error=outcome.reason)
        answered = any(not isinstance(outcome, Retry) for outcome in outcomes)
        if answered and self.events.end("exporter.failed"):
            self.events.info("exporter.resumed")
        self.events.tell()

    def _accepted(self, batch: Batch, outcome: Accepted) -> None:
        rejected = min(outcome.rejected, batch.items)
        self._add("quiver.exporter.sent_batches")
        self._add("quiver.exporter.sent_items", batch.items - rejected, label=batch.signal)
        self._add("quiver.exporter.rejected_items", rejected, label=batch.signal)
        if rejected:
            self.events.begin("exporter.items_rejected", signal=str(batch.signal))

    def refused(self, batch: Batch | None, outcome: Refused) -> None:
        """Count a batch that will never be taken."""
        self._add("quiver.exporter.refused_batches")
        if batch is not None:
            self._add("quiver.exporter.refused_items", batch.items, label=batch.signal)
        self.events.begin("exporter.batch_refused", answer=outcome.reason.partition(":")[0])
        self.events.tell()

    def dropped(self, batch: Batch, count: int) -> None:
        """Count items that processors took out."""
        self._add("quiver.exporter.dropped_items", max(count, 0), label=batch.signal)

    def went_ahead(self, count: int) -> None:
        """Count batches that were accepted before their segment was there."""
        self._add("quiver.exporter.ahead_batches", count)

    def owes(self, error: QuiverError) -> None:
        """Tell that outcomes could not be written down yet."""
        self.events.begin("exporter.outcome_unwritten", error=error)
        self.events.tell()

    def unread(self, error: QuiverError) -> None:
        """Tell that a bundle could not be read just now."""
        self.events.begin("exporter.bundle_unread", error=error)
        self.events.tell()

    def failed(self, error: QuiverError) -> None:
        """Tell that a delivery came to an end that nobody asked for."""
        self.events.error("exporter.ended", error=error)
        self.events.tell()
