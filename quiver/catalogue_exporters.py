"""The catalogue of exporters: what became of the batches that each of them was given.

Each has the label ``node``, the name of its node in the pipeline. How far behind one is stands in
the metrics of its subscriber, which has the same name.
"""

from __future__ import annotations

from typing import Final

from quiver.catalogue import Metric

__all__ = ["EXPORTER_CATALOGUE"]

_SIGNALS: Final = ("logs", "traces", "metrics")
_EXPORT: Final = (
    *(0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


def _items(name: str, text: str) -> Metric:
    return Metric(f"quiver.exporter.{name}", "counter", "{item}", text, "signal", _SIGNALS)


def _batches(name: str, text: str) -> Metric:
    return Metric(f"quiver.exporter.{name}", "counter", "{batch}", text)


EXPORTER_CATALOGUE: Final[tuple[Metric, ...]] = (
    _batches("sent_batches", "Batches that the other side accepted."),
    _items("sent_items", "Log records, spans and metrics in them, less those it rejected."),
    _items("rejected_items", "Items of accepted batches that the other side will never take."),
    _batches("retried_batches", "Times that a batch was not taken, and is to be sent again."),
    _batches("refused_batches", "Batches that the other side will never take: dead letters."),
    _items("refused_items", "Items in them."),
    _items("dropped_items", "Items that processors before the exporter took out."),
    _batches("ahead_batches", "Of the accepted batches, those sent before their segment was."),
    Metric("quiver.exporter.held_batches", "gauge", "{batch}", "Batches in hand, not answered."),
    Metric("quiver.exporter.offered_batches", "gauge", "{batch}", "Durable batches to be sent."),
    Metric("quiver.exporter.blocked", "gauge", "1", "1 while nothing is sent after failures."),
    Metric(
        "quiver.exporter.export",
        "histogram",
        "s",
        "How long it took from a call of the exporter to its answer, for all its batches.",
        bounds=_EXPORT,
    ),
)
"""Every metric of an exporter."""
