"""Requests of OTLP and batches of Arrow, one made of the other, as a pipeline asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quiver.otel.batch import OTLP_SCHEMA, Batch, of_request
from quiver.otel.signals import OTLP_SLOTS, Signal

__all__ = ["Codec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """What makes one of the other; all of them raise InputError for what is malformed."""

    decode: Callable[[Signal, bytes], Sequence[Batch]]
    encode: Callable[[Batch], bytes]
    count: Callable[[Signal, bytes], int]
    from_json: Callable[[Signal, bytes], bytes]

    def kept(self, signal: Signal, request: bytes) -> Sequence[Batch]:
        """Keep a request as it came, once it is known to be well-formed; nothing if it is empty."""
        items = self.count(signal, request)
        return [of_request(signal, request, items)] if items else []

    def decoded(self, batch: Batch) -> Sequence[Batch]:
        """Give a batch as Arrow, whatever it is."""
        if not batch.is_otlp:
            return [batch]
        requests = batch.bundle[OTLP_SLOTS[batch.signal]].column("request")
        return [one for value in requests for one in self.decode(batch.signal, value.as_py())]

    def joined(self, signal: Signal, batches: Sequence[Batch]) -> Batch | None:
        """Make one batch of several, as requests of OTLP; one alone stays as it is."""
        if len(batches) <= 1:
            return batches[0] if batches else None
        import pyarrow as pa

        from quiver.bundle import RecordBundle

        columns = [
            pa.array([self.encode(batch) for batch in batches], pa.binary()),
            pa.array([batch.items for batch in batches], pa.int64()),
        ]
        made = pa.record_batch(columns, schema=OTLP_SCHEMA)
        return Batch(signal, RecordBundle({OTLP_SLOTS[signal]: made}))
