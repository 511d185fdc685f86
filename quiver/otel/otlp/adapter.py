"""Requests of OTLP as batches of Arrow, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quiver.bundle import RecordBundle
from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.otlp.items import read_items, write_items
from quiver.otel.otlp.library import request_class
from quiver.otel.otlp.limits import DEFAULT_LIMITS, Limits
from quiver.otel.otlp.logs import read_logs
from quiver.otel.otlp.logs_out import write_logs
from quiver.otel.signals import OTLP_SLOTS, ROOT_SLOTS, Signal
from quiver.otel.wire import Source, read, span, whole

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["count", "decode", "encode"]

_READERS: Final[dict[Signal, Callable[[Source, Limits], Iterator[Batch]]]] = {
    Signal.LOGS: read_logs,
    Signal.TRACES: partial(read_items, Signal.TRACES),
    Signal.METRICS: partial(read_items, Signal.METRICS),
}
_WRITERS: Final[dict[Signal, Callable[[RecordBundle], bytes]]] = {
    Signal.LOGS: write_logs,
    Signal.TRACES: partial(write_items, Signal.TRACES),
    Signal.METRICS: partial(write_items, Signal.METRICS),
}
_NAMES: Final = {
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}
_PLACES_MAX: Final = 256
"""Resources, and scopes, that are looked into one by one."""
_BYTES_OF_AN_ITEM: Final = 4
"""Who sends more items than allowed in so many bytes each makes the library hold twice as many."""


def decode(
    signal: Signal, request: bytes | memoryview, *, limits: Limits = DEFAULT_LIMITS
) -> list[Batch]:
    """Make batches of a request: none if it has no items, several if one has no ids for all.

    Raises InputError with the byte if it is malformed, and if it holds more than the limits say.
    """
    return list(_READERS[signal](Source(request), limits))


def encode(batch: Batch) -> bytes:
    """Make a request of a batch: of payloads, or of requests that were kept as they came.

    Raises InputError for payloads that are none of OTAP.
    """
    if batch.is_otlp:
        # Requests one behind the other are one request: what is repeated in them goes on.
        requests = batch.bundle[OTLP_SLOTS[batch.signal]].column("request")
        return b"".join(each.as_buffer() for each in requests)
    root = ROOT_SLOTS[batch.signal]
    if root not in batch.bundle:
        raise InputError(f"a batch of {batch.signal} without the slot {root!r}")
    return _WRITERS[batch.signal](batch.bundle)


def count(signal: Signal, request: bytes | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> int:
    """Count the items of a request, and see whether it is one; raises InputError if not."""
    items = None
    if len(request) > _BYTES_OF_AN_ITEM * limits.items:
        items = _count_apart(request, limits)
    message = _read_whole(signal, request)
    if items is None:
        items = _count_in(signal, message)
    return _count_apart(request, limits) if items is None else _checked(items, limits)


def _checked(items: int, limits: Limits) -> int:
    if items > limits.items:
        raise InputError(f"a request with {items} items; at most {limits.items} are taken")
    return items


def _count_apart(request: bytes | memoryview, limits: Limits) -> int:
    """Count without making objects of anything, however it is nested."""
    source = Source(request)
    resources = read(source, whole(source), [span(1)], count=1).ranges(1).each_its_own()
    scopes = read(source, resources, [span(2)], count=resources.size).ranges(2).each_its_own()
    return _checked(read(source, scopes, [span(2)], count=scopes.size).ranges(2).size, limits)


def _count_in(signal: Signal, message: Any) -> int | None:  # noqa: ANN401
    """Count what the library has read; None if there are too many places to look into."""
    outer, middle, inner = _NAMES[signal]
    resources = getattr(message, outer)
    if len(resources) > _PLACES_MAX:
        return None
    places = [getattr(resource, middle) for resource in resources]
    if sum(map(len, places)) > _PLACES_MAX:
        return None
    return sum(len(getattr(scope, inner)) for scopes in places for scope in scopes)


def _read_whole(signal: Signal, request: bytes | memoryview) -> Message:
    """Let the library read all of it, whose word it is that others go by."""
    from google.protobuf.message import DecodeError

    message = request_class(signal)()
    try:
        message.ParseFromString(request)
    except DecodeError as error:
        raise InputError(f"not a request of {signal}: {error}") from error
    return message
