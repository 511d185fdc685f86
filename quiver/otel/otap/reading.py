"""What comes in on one OTAP stream: Arrow messages that go on where the last batch ended.

Each payload type has an Arrow stream of its own, opened by the payload that begins with a schema,
whose dictionaries live until it ends. A sender that changes its schema begins another under a new
schema id; a few of those before are kept, for a sender that comes back to one without its schema.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.config import LimitsConfig
from quiver.errors import InputError, QuiverError
from quiver.ipc import ARROW_FAULTS, check_batch, check_decoded, check_schema, out_of_memory
from quiver.ipc_messages import stream_decoded_bytes
from quiver.otel.batch import Batch
from quiver.otel.otap.columns import check_columns, payload_slots
from quiver.otel.otap.format import ArrowPayload, BatchRecords
from quiver.otel.otap.plain import plain_batch
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["BrokenStreamError", "StreamLimits", "StreamReader"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How much one stream may bring, and make us keep.

    ``decoded_bytes`` bounds what compressed bodies of one payload decode to; ``dictionary_bytes``
    all dictionaries that are kept; ``schemas`` how many Arrow streams are kept open.
    """

    decoded_bytes: int = 64 * _MIB
    dictionary_bytes: int = 64 * _MIB
    rows: int = 1 << 24
    columns: int = 256
    nesting: int = 8
    schemas: int = 32


class BrokenStreamError(InputError):
    """The Arrow messages themselves cannot be read, so what comes behind them cannot be either."""


class StreamReader:
    """Decodes the batches of one stream, in order. For one thread at a time."""

    def __init__(self, signal: Signal, limits: StreamLimits | None = None) -> None:
        """Begin with no Arrow stream open."""
        self._signal, self._slots = signal, payload_slots(signal)
        self._bounds = limits or StreamLimits()
        self._limits = LimitsConfig(
            decoded_bytes=self._bounds.decoded_bytes,
            rows=self._bounds.rows,
            columns=self._bounds.columns,
            nesting=self._bounds.nesting,
        )
        self._open: OrderedDict[tuple[int, str], _ArrowStream] = OrderedDict()

    def read(self, records: BatchRecords) -> Batch:
        """Decode one batch, with plain ids, that stands by itself.

        Raises BrokenStreamError, or CapacityError for want of memory, if nothing behind it on this
        stream can be read any more; InputError if this batch alone is refused.
        """
        # All payloads, before any is looked at: the next batch goes on where these end.
        found = [(self._slots.get(each.kind), self._next(each)) for each in records.payloads]
        batches: dict[str, pa.RecordBatch] = {}
        for (slot, batch), payload in zip(found, records.payloads, strict=True):
            if slot is None:
                raise InputError(
                    f"a batch of {self._signal} has a payload of the type {payload.kind}",
                    hint=f"it may have {', '.join(map(str, self._slots))}",
                )
            if slot in batches:
                raise InputError(f"a batch has two payloads {slot}")
            batches[slot] = self._plain(slot, batch)
        root = ROOT_SLOTS[self._signal]
        if root not in batches:
            raise InputError(f"a batch of {self._signal} has no payload {root}")
        kept = {slot: batch for slot, batch in batches.items() if batch.num_rows or slot == root}
        return Batch(self._signal, RecordBundle(kept))

    def _next(self, payload: ArrowPayload) -> pa.RecordBatch:
        """Read the one batch of a payload; every fault is one of the stream, out of memory too."""
        try:
            return self._advance(payload)
        except BrokenStreamError:
            raise
        except QuiverError as error:
            raise BrokenStreamError(error.message, hint=error.hint) from error
        except MemoryError as error:
            raise out_of_memory() from error
        except (*ARROW_FAULTS, StopIteration) as error:
            raise BrokenStreamError(f"an Arrow payload cannot be read: {error}") from error

    def _advance(self, payload: ArrowPayload) -> pa.RecordBatch:
        data, key = memoryview(payload.record), (payload.kind, payload.schema_id)
        check_decoded(stream_decoded_bytes(data), self._limits)
        begins = _check_messages(data)
        stream = None if begins else self._open.get(key)
        if stream is None:
            if not begins:
                raise BrokenStreamError(
                    "a payload goes on with an Arrow stream that is not open",
                    hint="the first payload of a schema id begins with its schema",
                )
            stream = _ArrowStream(data, self._limits)
        batch = stream.next(data)
        if stream.dictionary_bytes > self._bounds.dictionary_bytes:
            raise BrokenStreamError(
                "the dictionaries of an Arrow stream are larger than allowed",
                hint=f"at most {self._bounds.dictionary_bytes} bytes",
            )
        self._open[key] = stream
        self._open.move_to_end(key)
        while (
            len(self._open) > self._bounds.schemas
            or self.kept_bytes > self._bounds.dictionary_bytes
        ):
            self._open.popitem(last=False)
        return batch

    @property
    def kept_bytes(self) -> int:
        """What all dictionaries take that are kept for the next batch."""
        return sum(stream.dictionary_bytes for stream in self._open.values())

    def _plain(self, slot: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        check_columns(slot, batch.schema)
        try:
            return plain_batch(slot, batch)
        except QuiverError:
            raise
        except MemoryError as error:
            raise out_of_memory() from error
        except ARROW_FAULTS as error:
            raise InputError(f"the ids of {slot} cannot be read: {error}") from error


def _check_messages(data: memoryview) -> bool:
    """See that a payload is: a schema or none, dictionaries, one batch. Whether it has a schema."""
    messages: Any = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    kinds = [message.type for message in messages]
    begins = bool(kinds) and kinds[0] == "schema"
    inside = kinds[1:] if begins else kinds
    if not inside or inside[-1] != "record batch" or {*inside[:-1]} - {"dictionary"}:
        raise BrokenStreamError(
            f"a payload holds the Arrow messages: {', '.join(kinds[:8]) or 'none'}",
            hint="a schema if it is the first, dictionaries, and one record batch",
        )
    return begins


class _Feed:
    """A file that is the payload at hand: Arrow reads on where the last one ended."""

    def __init__(self) -> None:
        self._data, self._place = pa.py_buffer(b""), 0
        self.closed = False

    def give(self, data: memoryview) -> None:
        self._data, self._place = pa.py_buffer(data), 0

    def read_buffer(self, size: int) -> pa.Buffer:
        """Give a view; Arrow asks for this instead of ``read`` where there is both."""
        part = self._data.slice(self._place, max(0, min(size, self._data.size - self._place)))
        self._place += part.size
        return part

    def read(self, size: int) -> bytes:
        return self.read_buffer(size).to_pybytes()

    def close(self) -> None:
        self.closed = True


class _ArrowStream:
    """One Arrow stream, fed payload by payload."""

    def __init__(self, first: memoryview, limits: LimitsConfig) -> None:
        self._feed, self._limits = _Feed(), limits
        self._feed.give(first)
        file: Any = self._feed
        self._reader = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
        check_schema(self._reader.schema, limits)
        self._is_begun = False
        self.dictionary_bytes = 0

    def next(self, data: memoryview) -> pa.RecordBatch:
        if self._is_begun:
            self._feed.give(data)
        self._is_begun = True
        batch = self._reader.read_next_batch()
        check_batch(batch, None, self._limits)
        self.dictionary_bytes = sum(map(_dictionary_bytes, batch.columns))
        return batch


def _dictionary_bytes(array: Any) -> int:  # noqa: ANN401 - whatever pyarrow has
    """Sum what the dictionaries of a column take, however deep they are."""
    if isinstance(array, pa.DictionaryArray):
        return int(array.dictionary.nbytes) + _dictionary_bytes(array.dictionary)
    if isinstance(array, pa.StructArray):
        return sum(_dictionary_bytes(array.field(each)) for each in range(array.type.num_fields))
    if isinstance(array, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray, pa.MapArray)):
        return _dictionary_bytes(array.values)
    return 0
