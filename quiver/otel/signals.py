"""The slot table of telemetry: which payload of OTAP each place of a bundle holds.

The numbers are those of OTAP's payload types today, and frozen here: a store keeps them for ever,
whatever the enum of a wire protocol does later.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from quiver.slots import Slot, SlotTable

__all__ = ["OTLP_SLOTS", "PAYLOADS", "ROOT_SLOTS", "TELEMETRY", "Signal"]


class Signal(StrEnum):
    """What a bundle of telemetry tells of."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"


PAYLOADS: Final[Mapping[Signal, Mapping[str, int]]] = {
    Signal.METRICS: {
        "univariate_metrics": 10,
        "number_data_points": 11,
        "summary_data_points": 12,
        "histogram_data_points": 13,
        "exp_histogram_data_points": 14,
        "number_dp_attrs": 15,
        "summary_dp_attrs": 16,
        "histogram_dp_attrs": 17,
        "exp_histogram_dp_attrs": 18,
        "number_dp_exemplars": 19,
        "histogram_dp_exemplars": 20,
        "exp_histogram_dp_exemplars": 21,
        "number_dp_exemplar_attrs": 22,
        "histogram_dp_exemplar_attrs": 23,
        "exp_histogram_dp_exemplar_attrs": 24,
        "multivariate_metrics": 25,
        "metric_attrs": 26,
    },
    Signal.LOGS: {"logs": 30, "log_attrs": 31},
    Signal.TRACES: {
        "spans": 40,
        "span_attrs": 41,
        "span_events": 42,
        "span_links": 43,
        "span_event_attrs": 44,
        "span_link_attrs": 45,
    },
}
"""The slots of each signal by name; ``resource_attrs`` (1) and ``scope_attrs`` (2) are of all."""

ROOT_SLOTS: Final[Mapping[Signal, str]] = {
    Signal.LOGS: "logs",
    Signal.TRACES: "spans",
    Signal.METRICS: "univariate_metrics",
}
"""The slot that every bundle of a signal has; the others hang from its ids."""

OTLP_SLOTS: Final[Mapping[Signal, str]] = {
    Signal.LOGS: "otlp_logs",
    Signal.TRACES: "otlp_traces",
    Signal.METRICS: "otlp_metrics",
}
"""The slot of requests that are kept as the OTLP bytes that came, by signal."""

_SHARED: Final = {"resource_attrs": 1, "scope_attrs": 2}
_OTLP: Final = {"otlp_logs": 60, "otlp_traces": 61, "otlp_metrics": 62}

TELEMETRY: Final = SlotTable(
    Slot(number, name, number)
    for payloads in (_SHARED, *PAYLOADS.values(), _OTLP)
    for name, number in payloads.items()
)
"""The slot table of a store that holds telemetry."""
