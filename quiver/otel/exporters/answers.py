"""What an answer means for what was sent: accepted, to be sent again, or never to be taken.

The table of the OTLP specification, for gRPC by status code and for HTTP by status:

==================================================  ============================================
answer                                              becomes
==================================================  ============================================
OK, 2xx                                             accepted, but for the items of a partial
                                                    success that the other side rejected
CANCELLED, DEADLINE_EXCEEDED, ABORTED,              to be sent again, after RetryInfo or
OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS;               Retry-After if the answer has one
429, 502, 503, 504; no answer at all
RESOURCE_EXHAUSTED with RetryInfo                   to be sent again after that
RESOURCE_EXHAUSTED without                          refused: as it is, it will never be taken
UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED;  to be sent again: this is about us, or about
401, 403, 404, 405, 407, 3xx                        an address, and not about the data
any other                                           refused
==================================================  ============================================

Only the line before the last leaves the specification, which has clients drop such data. Behind a
store that would set aside all that comes while a token has expired or a path is mistyped. It stays
in the store instead, bounded by retention, until somebody mends that.

A 2xx answer that is neither empty nor OTLP comes from somebody in between, such as the login page
of a proxy: to be sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias

from quiver.errors import InputError
from quiver.otel.exporters.fields import fields, signed, text_of
from quiver.otel.nodes import Accepted, Outcome, Refused, Retry
from quiver.units import SECOND

__all__ = ["AFTER_MAX", "accepted", "of_grpc", "of_http", "plain", "retry_info"]

AFTER_MAX: Final = 300.0
"""No other side makes anybody wait longer than this, in seconds, whatever it says."""

Clean: TypeAlias = Callable[[str], str]

_TEXT_MAX: Final = 300
_RETRIED: Final = frozenset(
    ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")
)
_ABOUT_US: Final = frozenset(("UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED"))
_OK_FIRST, _OK_LAST, _MOVED_LAST = 200, 299, 399
_HTTP_RETRIED: Final = frozenset((429, 502, 503, 504))
_HTTP_ABOUT_US: Final = frozenset((401, 403, 404, 405, 407))
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_DETAILS_MAX: Final = 64
"""Details of a status that are looked at."""


def of_grpc(code: str, details: str, status: bytes | None) -> Outcome:
    """Read a status that is not OK; ``status`` is the google.rpc.Status of the trailer.

    ``details`` is without secrets already.
    """
    after = None if status is None else retry_info(status)
    reason = f"{code}: {plain(details)}" if details else code
    if code == "RESOURCE_EXHAUSTED":
        return Refused(reason) if after is None else Retry(reason, after)
    if code in _RETRIED or code in _ABOUT_US:
        return Retry(reason, after)
    return Refused(reason)


def of_http(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_ns: int,
    whole: bool = True,
    clean: Clean = str,
) -> Outcome:
    """Read an answer of HTTP; ``whole`` says whether the body was read to its end.

    ``clean`` takes secrets out of what the other side says.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if _OK_FIRST <= status <= _OK_LAST:
        return _http_accepted(kind, body, whole=whole, clean=clean)
    reason = f"status {status}"
    if (text := plain(clean(_message(kind, body)))) != "":
        reason += f": {text}"
    if _OK_LAST < status <= _MOVED_LAST:
        return Retry(f"{reason}: it is moved, and nobody follows with credentials")
    if status in _HTTP_RETRIED or status in _HTTP_ABOUT_US:
        return Retry(reason, _after(headers.get("retry-after", ""), now_ns))
    return Refused(reason)


def _http_accepted(kind: str, body: bytes, *, whole: bool, clean: Clean) -> Outcome:
    if not body:
        return Accepted()
    if kind not in ("application/x-protobuf", "application/protobuf", "application/json"):
        return Retry(f"the answer is {plain(clean(kind)) or 'of no type'}, not OTLP")
    if not whole:
        return Accepted(reason="the answer was too long to be read")
    read = _json_accepted if kind == "application/json" else accepted
    return read(body, clean)


def accepted(body: bytes, clean: Clean = str) -> Accepted:
    """Read the response of an export; one that cannot be read was a success all the same."""
    rejected, reason = 0, ""
    try:
        for number, value in fields(body):
            if number == 1 and not isinstance(value, int):
                for inner, part in fields(value):
                    if inner == 1 and isinstance(part, int):
                        rejected = signed(part)
                    elif inner == 2:  # noqa: PLR2004 error_message
                        reason = text_of(part)
    except InputError:
        return Accepted(reason="the answer could not be read")
    return Accepted(max(rejected, 0), plain(clean(reason)))


def _json_accepted(body: bytes, clean: Clean) -> Accepted:
    try:
        found: Any = json.loads(body)
        part = found.get("partialSuccess") or {}
        counts = (
            part.get(name, 0)
            for name in ("rejectedLogRecords", "rejectedSpans", "rejectedDataPoints")
        )
        rejected = max((int(count) for count in counts), default=0)
        return Accepted(max(rejected, 0), plain(clean(str(part.get("errorMessage", "")))))
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        return Accepted(reason="the answer could not be read")


def retry_info(status: bytes) -> float | None:
    """Find the delay of RetryInfo in a google.rpc.Status, in seconds and bounded; None if none."""
    try:
        for seen, (number, value) in enumerate(fields(status)):
            if seen >= _DETAILS_MAX:
                break
            if number == 3 and not isinstance(value, int):  # noqa: PLR2004 details
                found = _any_of(value)
                if found is not None:
                    return found
    except InputError:
        return None
    return None


def _any_of(value: memoryview) -> float | None:
    kind, data = "", memoryview(b"")
    for number, part in fields(value):
        if number == 1:
            kind = text_of(part)
        elif number == 2 and not isinstance(part, int):  # noqa: PLR2004 value
            data = part
    if kind != _RETRY_INFO:
        return None
    seconds = nanos = 0
    for number, part in fields(data):
        if number == 1 and not isinstance(part, int):
            for inner, amount in fields(part):
                if isinstance(amount, int):
                    seconds = signed(amount) if inner == 1 else seconds
                    nanos = signed(amount) if inner == 2 else nanos  # noqa: PLR2004
    return _bounded(seconds + nanos / SECOND)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), AFTER_MAX)


def _after(text: str, now_ns: int) -> float | None:
    """Read Retry-After: seconds, or a date."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return _bounded(float(text[:9]))
    try:
        return _bounded(parsedate_to_datetime(text).timestamp() - now_ns / SECOND)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _message(kind: str, body: bytes) -> str:
    """Find what an error says: the message of a google.rpc.Status, or a short text."""
    if kind in ("application/x-protobuf", "application/protobuf"):
        try:
            return next((text_of(v) for number, v in fields(body) if number == 2), "")  # noqa: PLR2004
        except InputError:
            return ""
    if kind in ("text/plain", "application/json"):
        return body.decode("utf-8", "replace")
    return ""


def plain(text: str) -> str:
    """Make one short line of what somebody else says."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _TEXT_MAX]).split())
    return line if len(line) <= _TEXT_MAX else f"{line[:_TEXT_MAX]}..."
