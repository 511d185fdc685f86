"""A batch: telemetry of one signal on its way, as payloads of OTAP or as OTLP bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.errors import InputError
from quiver.otel.signals import OTLP_SLOTS, PAYLOADS, ROOT_SLOTS, Signal

__all__ = ["OTLP_SCHEMA", "Batch", "of_bundle", "of_request"]

_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("request", pa.binary(), nullable=False),
    pa.field("items", pa.int64(), nullable=False),
]
OTLP_SCHEMA: Final = pa.schema(_FIELDS)
"""A slot of OTLP bytes: whole export requests, and how many items each of them holds."""


_ENDS: Final = struct.Struct("<ii")
"""Where the only value of a binary column begins and ends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One bundle of telemetry, of one signal."""

    signal: Signal
    bundle: RecordBundle
    counted: int | None = field(default=None, compare=False, repr=False)
    """How many items it holds, if who made it knows."""

    @property
    def is_otlp(self) -> bool:
        """Whether it holds requests as they came, which nobody has decoded."""
        return OTLP_SLOTS[self.signal] in self.bundle

    @property
    def items(self) -> int:
        """How many log records, spans, or metrics it holds."""
        if self.counted is not None:
            return self.counted
        if self.is_otlp:
            counts = self.bundle[OTLP_SLOTS[self.signal]].column("items")
            return sum(int(each) for each in counts.to_numpy())
        return int(self.bundle[ROOT_SLOTS[self.signal]].num_rows)


def of_request(signal: Signal, request: bytes | memoryview, items: int) -> Batch:
    """Make a batch of one request that is kept as it came; its bytes stay where they are."""
    ends = pa.py_buffer(_ENDS.pack(0, len(request)))
    columns = [
        pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(request)]),
        pa.array([items], pa.int64()),
    ]
    batch = pa.record_batch(columns, schema=OTLP_SCHEMA)
    return Batch(signal, RecordBundle({OTLP_SLOTS[signal]: batch}), items)


def of_bundle(bundle: RecordBundle) -> Batch:
    """Tell the signal of a bundle out of a store; raises InputError if it holds no telemetry."""
    for signal in Signal:
        if OTLP_SLOTS[signal] in bundle or any(name in bundle for name in PAYLOADS[signal]):
            return Batch(signal, bundle)
    raise InputError(
        f"a bundle with the slots {', '.join(bundle) or 'none'} holds no telemetry",
        hint="a store of telemetry is made by quiver run, or with slots=quiver.otel.TELEMETRY",
    )
