"""A batch becomes a request of OTLP, or is refused because it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quiver.errors import InputError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Refused
from quiver.otel.signals import OTLP_SLOTS

__all__ = ["joined", "request_of"]


def joined(batch: Batch) -> bytes:
    """Join the requests of a batch that is OTLP already: all they have is one repeated field."""
    if not batch.is_otlp:
        raise InputError(f"a batch of {batch.signal} as Arrow is no OTLP yet")
    requests: list[Any] = batch.bundle[OTLP_SLOTS[batch.signal]].column("request").to_pylist()
    return b"".join(requests)


def request_of(encode: Callable[[Batch], bytes], batch: Batch) -> bytes | Refused:
    """Encode a batch; one that cannot be is refused alone."""
    try:
        return encode(batch)
    except InputError as error:
        return Refused(f"it cannot be encoded as OTLP: {error}")
