"""OTLP: its requests as batches of Arrow and as JSON, there and back."""

from __future__ import annotations

from quiver.otel.otlp.adapter import count, decode, encode
from quiver.otel.otlp.json_text import from_json, to_json
from quiver.otel.otlp.limits import DEFAULT_LIMITS, Limits

__all__ = ["DEFAULT_LIMITS", "Limits", "count", "decode", "encode", "from_json", "to_json"]
