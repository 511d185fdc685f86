"""An Arrow IPC file inside a larger buffer: chunk by chunk, as a table, whole or few columns of it.

The other half of the door that ``ipc`` is: what comes out has passed Arrow's full validation, or
as a table what comes to the same (``ipc_values``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, InputError
from quiver.ipc import (
    ARROW_FAULTS,
    as_buffer,
    check_batch,
    check_decoded,
    check_rows,
    check_schema,
    out_of_memory,
)
from quiver.ipc_messages import Blocks, file_blocks, file_footer
from quiver.ipc_values import validate_later, validate_table

__all__ = ["ArrowFile", "check_file_schema"]

_DEFAULT_LIMITS: Final = LimitsConfig().for_reading()
_NO_BLOCKS: Final = Blocks(memoryview(b""), memoryview(b""))
_FEW: Final = 4
"""Messages that are followed one by one sooner than together."""
_KNOWN: Final[deque[tuple[pa.Schema, int, int]]] = deque(maxlen=8)
"""Schemas that passed last, and under which limits: many streams of a segment have the same."""


class ArrowFile:
    """An IPC file inside a larger buffer, read chunk by chunk or as a table.

    With ``columns`` only those columns, by place, are given; the buffers of others are not touched.
    Without ``validate`` nothing is checked: only for bytes that were found good before. Without
    ``values`` no value is: only for those that this process wrote, if they still have its checksum.
    What was read once and found good is not checked again.
    ``check`` is told which bytes, half-open, are about to be believed, and may raise.
    ``known`` is a schema that needs no check against the limits; metadata does not count.
    """

    def __init__(
        self,
        data: pa.Buffer | memoryview | bytes,
        *,
        limits: LimitsConfig = _DEFAULT_LIMITS,
        columns: Sequence[int] | None = None,
        validate: bool = True,
        values: bool = True,
        check: Callable[[int, int], None] | None = None,
        known: pa.Schema | None = None,
    ) -> None:
        """Open it; raises DamagedEntry if it is no Arrow file or its schema breaks a limit."""
        self._limits = limits
        self._validate = validate
        self._looks_at_values = validate and values
        self._check = check
        self._columns = None if columns is None else list(columns)
        self._sound: dict[int | None, bool] = {}
        """Chunks that were found good, None for all together, and whether they are compressed."""
        self._words_known = False
        """Whether the dictionaries, which are those of all chunks, were validated with some."""
        buffer = self._data = as_buffer(data)
        if check is not None:
            check(*file_footer(memoryview(buffer)))
        dictionaries = self._blocks = _NO_BLOCKS
        if validate or check is not None or columns is not None:  # Otherwise nobody asks.
            dictionaries, self._blocks = file_blocks(memoryview(buffer))
        if check is not None:
            first = self._blocks.place(0)[0] if self._blocks.count else buffer.size
            check(0, first)  # The schema, and all dictionaries, unless they are anywhere else.
            for index in range(dictionaries.count):
                offset, *lengths = dictionaries.place(index)
                check(offset, offset + sum(lengths))
        # Arrow keeps all dictionaries, and reads them with the first chunk.
        self._dictionary_bytes = 0
        for index in range(dictionaries.count if validate else 0):
            self._dictionary_bytes += dictionaries.decoded_bytes(index)
            check_decoded(self._dictionary_bytes, limits)
        try:
            self._reader: Any = pa.ipc.open_file(buffer)
            self.schema: pa.Schema = self._reader.schema
            if validate and (known is None or not self.schema.equals(known)):
                check_file_schema(self.schema, limits)
            self.chunk_count: int = self._reader.num_record_batches
        except InputError as error:
            raise DamagedEntry(f"an Arrow file is refused: {error.message}") from error
        except MemoryError as error:
            raise out_of_memory() from error
        except ARROW_FAULTS as error:
            raise DamagedEntry(f"an Arrow file cannot be read: {error}") from error

    def chunk(self, index: int) -> pa.RecordBatch:
        """Read one batch, validated in full; its buffers lie in the bytes given."""
        if not 0 <= index < self.chunk_count:
            raise DamagedEntry(
                "a chunk is out of range", expected=f"below {self.chunk_count}", found=index
            )
        sound = self._sound.get(index)
        compressed = self._check_message(index) if sound is None else sound
        try:
            if self._columns is None:
                batch = self._reader.get_batch(index)
            elif compressed:
                batch = self._decoding_reader().get_batch(index)
            else:
                batch = self._reader.get_batch(index).select(self._columns)
            if sound is None:
                self._check_buffers(batch.columns)
                if self._looks_at_values:
                    self._check_values(batch)
                elif self._validate:
                    check_rows(batch, None, self._limits)
        except MemoryError as error:
            raise out_of_memory() from error
        except ARROW_FAULTS as error:
            raise DamagedEntry(f"chunk {index} cannot be read: {error}") from error
        self._sound[index] = compressed
        return batch

    def _check_values(self, batch: pa.RecordBatch) -> None:
        if self._words_known:
            check_rows(batch, None, self._limits)
            validate_later(batch)
        else:
            check_batch(batch, None, self._limits)
            self._words_known = True

    def table(self) -> pa.Table:
        """Read all batches at once, as a table whose chunks they are; checked as by ``chunk``."""
        with self._at_once() as (compressed, is_new):
            if self._columns is None:
                table = self._reader.read_all()
            elif compressed:
                table = self._decoding_reader().read_all()
            else:
                table = self._reader.read_all().select(self._columns)
            if is_new:
                self._check_all(table, (column.chunks for column in table.columns))
        return table

    def batches(self) -> list[pa.RecordBatch]:
        """Read all batches at once, as they are; checked as by ``table``, and sooner than it."""
        reader = self._reader
        with self._at_once() as (compressed, is_new):
            if self._columns is not None and compressed:
                reader = self._decoding_reader()
            batches = [reader.get_batch(index) for index in range(self.chunk_count)]
            if self._columns is not None and not compressed:
                batches = [batch.select(self._columns) for batch in batches]
            if is_new and batches:
                table = pa.Table.from_batches(batches)
                self._check_all(table, (batch.columns for batch in batches))
        return batches

    @contextmanager
    def _at_once(self) -> Iterator[tuple[bool, bool]]:
        """Say whether chunks are compressed, and whether they are new; behind it they are sound."""
        sound = self._sound.get(None)
        compressed = self._check_messages() if sound is None else sound
        try:
            yield compressed, sound is None
        except MemoryError as error:
            raise out_of_memory() from error
        except ARROW_FAULTS as error:
            raise DamagedEntry(f"the chunks cannot be read: {error}") from error
        self._sound[None] = compressed

    def _check_all(self, table: pa.Table, arrays: Iterable[Sequence[Any]]) -> None:
        """Check what was read as a whole; its arrays take time to list, and may not be needed."""
        for some in arrays if self._check else ():
            self._check_buffers(some)
        if self._looks_at_values:
            validate_table(table)
            self._words_known = True

    def _check_messages(self) -> bool:
        """Check the metadata of all chunks; says whether one of them is compressed."""
        compressed = False
        for index in self._to_check():
            compressed |= self._check_message(index)
        for index in range(self.chunk_count if compressed and self._check else 0):
            self._check_message(index, whole=True)
        return compressed

    def _to_check(self) -> Sequence[int]:
        """Choose the chunks whose metadata is read before all of them are."""
        if not self._validate:
            return range(min(self.chunk_count, 1))
        if self._check or self.chunk_count <= _FEW:
            return range(self.chunk_count)
        return self._blocks.doubtful()

    def _decoding_reader(self) -> Any:  # noqa: ANN401
        """Open the file so that only the columns asked for are decoded.

        Not for what is not compressed: it copies the columns, which the plain reader only views.
        """
        options = pa.ipc.IpcReadOptions(included_fields=self._columns, use_threads=False)
        return pa.ipc.open_file(self._data, options=options)

    def _check_message(self, index: int, *, whole: bool = False) -> bool:
        """Check a chunk's metadata, and how large it will be; of a compressed one all of it.

        Says whether it is compressed.
        """
        if not self._validate:
            return self._columns is not None and self._blocks.decoded_bytes(index) > 0
        if self._check is not None:
            offset, metadata_bytes, body_bytes = self._blocks.place(index)
            self._check(offset, offset + metadata_bytes)
        decoded = self._blocks.decoded_bytes(index)
        check_decoded(self._dictionary_bytes + decoded, self._limits)
        if (decoded or whole) and self._check is not None:
            self._check(offset, offset + metadata_bytes + body_bytes)
        return decoded > 0

    def _check_buffers(self, arrays: Sequence[Any]) -> None:
        """Check the bytes that arrays view; what was decoded is not among them."""
        if self._check is None:
            return
        start, end = self._data.address, self._data.address + self._data.size
        for array in arrays:
            for buffer in array.buffers():
                if buffer is not None and start <= buffer.address < end:
                    at = buffer.address - start
                    self._check(at, at + buffer.size)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """Read all batches in order."""
        return (self.chunk(index) for index in range(self.chunk_count))


def check_file_schema(schema: pa.Schema, limits: LimitsConfig) -> None:
    """Hold a schema to the limits, unless one that equals it was; raises InputError."""
    own = limits.columns, limits.nesting
    known = tuple(_KNOWN)  # Others may add to it.
    if not any(own == (columns, nesting) and schema.equals(one) for one, columns, nesting in known):
        check_schema(schema, limits)
        _KNOWN.appendleft((schema, *own))
