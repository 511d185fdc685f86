"""What goes out on one OTAP stream: an Arrow stream for each payload type, under a schema id.

Dictionaries grow: a batch sends the words that are new in it. Where they would become too large,
or too many for their keys, they start again with the words of the batch at hand. Another schema is
another Arrow stream, with an id that no stream had before.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import blake3
import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.ipc import out_of_memory
from quiver.otel.batch import Batch
from quiver.otel.otap.columns import NUMBERS
from quiver.otel.otap.format import ArrowPayload, BatchRecords
from quiver.otel.otap.transport import encode_ids
from quiver.otel.signals import ROOT_SLOTS, Signal

__all__ = ["PayloadCompression", "StreamWriter"]

PayloadCompression: TypeAlias = Literal["none", "lz4", "zstd"]

_WORDS_BYTES_MAX: Final = 4 << 20
_ID_CHARS: Final = 16


class StreamWriter:
    """Encodes the batches of one stream, in order. For one thread at a time.

    After an error the stream is of no use any more: the receiver may have missed a part of it.
    """

    def __init__(self, signal: Signal, compression: PayloadCompression = "none") -> None:
        """Begin with no Arrow stream open."""
        self._signal, self._open = signal, dict[str, _ArrowStream]()
        self._options = pa.ipc.IpcWriteOptions(
            compression=None if compression == "none" else compression,
            emit_dictionary_deltas=True,
            use_threads=False,
        )
        self._opened = self._sent = 0

    def write(self, batch: Batch) -> BatchRecords:
        """Encode one batch of Arrow payloads, under the next number."""
        if batch.is_otlp or batch.signal != self._signal:
            raise InputError(f"a stream of {self._signal} takes Arrow payloads of that alone")
        encoded = encode_ids(batch).bundle
        try:
            payloads = tuple(
                self._payload(slot, encoded[slot])
                for slot in sorted(encoded, key=lambda slot: slot != ROOT_SLOTS[self._signal])
            )
        except MemoryError as error:
            raise out_of_memory() from error
        self._sent += 1
        return BatchRecords(self._sent, payloads)

    def _payload(self, slot: str, batch: pa.RecordBatch) -> ArrowPayload:
        stream = self._open.get(slot)
        if stream is None or not stream.schema.equals(batch.schema, check_metadata=True):
            self._opened += 1
            digest = blake3.blake3(batch.schema.serialize()).hexdigest()[:_ID_CHARS]
            schema_id = f"{slot}-{digest}-{self._opened}"
            stream = self._open[slot] = _ArrowStream(schema_id, batch.schema, self._options)
        return ArrowPayload(stream.schema_id, NUMBERS[slot], stream.write(batch))


class _Drain:
    """A file that is what was written since it was asked last."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> int:  # noqa: ANN401 - bytes, or a buffer that lives only now
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


class _ArrowStream:
    def __init__(self, schema_id: str, schema: pa.Schema, options: pa.ipc.IpcWriteOptions) -> None:
        self.schema_id, self.schema = schema_id, schema
        self._drain = _Drain()
        file: Any = self._drain
        self._writer = pa.ipc.new_stream(file, schema, options=options)
        self._words: dict[tuple[str, ...], pa.Array[Any]] = {}

    def write(self, batch: pa.RecordBatch) -> bytes:
        columns = [
            self._grown((field.name,), batch.column(index))
            for index, field in enumerate(batch.schema)
        ]
        self._writer.write_batch(pa.record_batch(columns, schema=batch.schema))
        return self._drain.take()

    def _grown(self, path: tuple[str, ...], array: Any) -> Any:  # noqa: ANN401 - any array
        """Give a column with its words behind those that the receiver has."""
        if isinstance(array, pa.StructArray):
            fields = [array.type.field(each) for each in range(array.type.num_fields)]
            if not any(isinstance(field.type, pa.DictionaryType) for field in fields):
                return array
            children = [
                self._grown((*path, field.name), array.field(each))
                for each, field in enumerate(fields)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        if not isinstance(array, pa.DictionaryArray):
            return array
        found = _united(self._words.get(path), array)
        self._words[path] = found.dictionary
        return found


def _united(known: pa.Array[Any] | None, array: Any) -> Any:  # noqa: ANN401 - pyarrow's stubs
    """Say an array in the words that are known and new ones behind; or in its own words."""
    words = array.dictionary
    if known is None or words.null_count or known.null_count or known is words:
        return array
    places = pc.index_in(words, value_set=known)
    if places.null_count:
        known = pa.concat_arrays([known, words.filter(places.is_null()).unique()])
        most = 1 << (8 * array.type.index_type.byte_width)
        if len(known) > most or known.nbytes > _WORDS_BYTES_MAX:
            return array
        places = pc.index_in(words, value_set=known)
    indices = places.take(array.indices).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, known, ordered=array.type.ordered)
