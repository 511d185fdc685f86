"""Telemetry for people: one line for each item, or the JSON of OTLP, one line for each batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.exporters.requests import request_of
from quiver.otel.nodes import Accepted, Delivered, Gather, Outcome, Refused
from quiver.otel.signals import Signal
from quiver.units import SECOND

__all__ = ["ConsoleExporter", "Style"]

Style = Literal["line", "json"]

_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVEL_WIDTH: Final = 4
_PLACES: Final = {
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}
_KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
_CONTROL: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""JSON escapes other control characters itself; terminals obey these too."""


class ConsoleExporter:
    """Writes lines; whoever reads them has them, so they are accepted at once."""

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        encode: Callable[[Batch], bytes],
        to_json: Callable[[Signal, bytes], str],
        style: Style = "line",
    ) -> None:
        """``write`` takes whole lines; what it raises is for whoever called."""
        self._write = write
        self._encode = encode
        self._to_json = to_json
        self._style = style

    @property
    def gather(self) -> Gather:
        """Each batch as it comes."""
        return Gather()

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Write all."""
        return [self._show(each.batch) for each in delivered]

    def _show(self, batch: Batch) -> Outcome:
        request = request_of(self._encode, batch)
        if isinstance(request, Refused):
            return request
        try:
            found = json.loads(self._to_json(batch.signal, request))
            lines = [_dump(found)] if self._style == "json" else list(_lines(batch.signal, found))
        except (InputError, ValueError, RecursionError) as error:
            return Refused(f"it cannot be shown: {type(error).__name__}")
        self._write("".join(f"{line}\n" for line in lines))
        return Accepted()

    def close(self) -> None:
        """Nothing is held."""


def _lines(signal: Signal, found: Any) -> Iterator[str]:  # noqa: ANN401 What JSON gives.
    resources, scopes, items = _PLACES[signal]
    for resource in found.get(resources, ()):
        known = dict(_pairs(resource.get("resource", {}).get("attributes", ())))
        service = _text(known.get("service.name", "-"))
        for scope in resource.get(scopes, ()):
            for item in scope.get(items, ()):
                yield f"{_LINES[signal](item, service)}{_rest(item)}"


def _log(item: Any, service: str) -> str:  # noqa: ANN401
    number = int(item.get("severityNumber", 0))
    level = str(item.get("severityText", "")) or (
        _LEVELS[min((number - 1) // _LEVEL_WIDTH, 5)] if number > 0 else "-"
    )
    time = item.get("timeUnixNano") or item.get("observedTimeUnixNano")
    return f"{_time(time)} {_text(level):5} {service} {_text(_value(item.get('body', {})))}"


def _span(item: Any, service: str) -> str:  # noqa: ANN401
    begun, end = int(item.get("startTimeUnixNano", 0)), int(item.get("endTimeUnixNano", 0))
    status = {1: "ok", 2: "ERROR"}.get(item.get("status", {}).get("code", 0), "-")
    took = f"{(end - begun) / SECOND:.6f}s"
    name, trace = _text(str(item.get("name", ""))), _text(str(item.get("traceId", "")))
    return f"{_time(begun)} {status:5} {service} {name} {took} trace={trace}"


def _metric(item: Any, service: str) -> str:  # noqa: ANN401
    kind = next((kind for kind in _KINDS if kind in item), "")
    points = item.get(kind, {}).get("dataPoints", ())
    last = points[-1] if points else {}
    value = last.get("asDouble", last.get("asInt", last.get("sum", last.get("count", ""))))
    name, unit = _text(str(item.get("name", ""))), _text(str(item.get("unit", "")))
    text = f"{_time(last.get('timeUnixNano'))} {kind or '-'} {service} {name} {_text(str(value))}"
    return f"{text} {unit} ({len(points)} points)"


_LINES: Final = {Signal.LOGS: _log, Signal.TRACES: _span, Signal.METRICS: _metric}


def _rest(item: Any) -> str:  # noqa: ANN401
    pairs = dict(_pairs(item.get("attributes", ())))
    return f" {_dump(pairs)}" if pairs else ""


def _pairs(attributes: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    for each in attributes:
        yield str(each.get("key", "")), _value(each.get("value", {}))


def _value(found: Any) -> Any:  # noqa: ANN401
    """Give an AnyValue as plain JSON."""
    if "arrayValue" in found:
        return [_value(each) for each in found["arrayValue"].get("values", ())]
    if "kvlistValue" in found:
        return dict(_pairs(found["kvlistValue"].get("values", ())))
    return next(iter(found.values()), None)


def _time(nanoseconds: Any) -> str:  # noqa: ANN401
    whole, rest = divmod(int(nanoseconds or 0), SECOND)
    try:
        return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
    except (ValueError, OverflowError, OSError):  # Beyond the year 9999.
        return str(nanoseconds)


def _text(value: Any) -> str:  # noqa: ANN401
    """Write a text so that it cannot steer a terminal, and stays on its line."""
    return _dump(value)[1:-1] if isinstance(value, str) else _dump(value)


def _dump(value: Any) -> str:  # noqa: ANN401
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_CONTROL)
