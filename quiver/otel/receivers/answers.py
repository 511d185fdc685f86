"""The bodies of answers: ``google.rpc.Status`` and OTLP's responses, as protobuf and as JSON."""

from __future__ import annotations

import json
from typing import Final

from quiver.otel.nodes import Accepted
from quiver.otel.receivers.refusal import Refusal
from quiver.otel.signals import Signal

__all__ = ["response", "response_json", "status", "status_json"]

_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_VARINT, _LENGTH = 0, 2
_REJECTED_NAMES: Final = {
    Signal.LOGS: "rejectedLogRecords",
    Signal.TRACES: "rejectedSpans",
    Signal.METRICS: "rejectedDataPoints",
}
_MASK: Final = (1 << 64) - 1


def status(refusal: Refusal, retry_seconds: int) -> bytes:
    """Write a ``Status``; one that is retryable says after how long, by ``RetryInfo``."""
    body = _number(1, refusal.code) + _text(2, refusal.message)
    if refusal.is_retryable:
        info = _bytes(1, _number(1, retry_seconds))  # retry_delay, a Duration
        body += _bytes(3, _text(1, _RETRY_INFO) + _bytes(2, info))
    return body


def status_json(refusal: Refusal, retry_seconds: int) -> bytes:
    """Write the same as JSON."""
    body: dict[str, object] = {"code": refusal.code, "message": refusal.message}
    if refusal.is_retryable:
        body["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{retry_seconds}s"}]
    return json.dumps(body).encode()


def response(done: Accepted) -> bytes:
    """Write an ``Export*ServiceResponse``: empty unless something was rejected, or is to be told.

    It is laid out alike for all signals.
    """
    if not done.rejected and not done.reason:
        return b""
    return _bytes(1, _number(1, done.rejected) + _text(2, done.reason))


def response_json(signal: Signal, done: Accepted) -> bytes:
    """Write the same as JSON."""
    partial: dict[str, str] = {}
    if done.rejected:
        partial[_REJECTED_NAMES[signal]] = str(done.rejected)  # As JSON of protobuf has 64 bits.
    if done.reason:
        partial["errorMessage"] = done.reason
    return json.dumps({"partialSuccess": partial} if partial else {}).encode()


def _varint(value: int) -> bytes:
    rest = value & _MASK
    written = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits are in each byte
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode("utf-8", "replace")) if value else b""
