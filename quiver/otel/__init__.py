"""Telemetry in and out: OTLP and OTAP receivers and exporters around a store of Arrow bundles."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quiver.otel.batch import Batch
    from quiver.otel.signals import TELEMETRY, Signal

__all__ = ["TELEMETRY", "Batch", "Signal"]

_LAZY = {"TELEMETRY": "signals", "Batch": "batch", "Signal": "signals"}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a room only when it is asked for: who checks the file of a pipeline needs no pyarrow."""
    room = _LAZY.get(name)
    if room is None:
        raise AttributeError(f"module 'quiver.otel' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"quiver.otel.{room}"), name)
    globals()[name] = value
    return value
