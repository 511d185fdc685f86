"""Arrow batches to bytes and back: the one door through which foreign bytes become Arrow data.

Arrow's readers trust what they read; unvalidated damage kills the process when it is used, not
when it is opened. So nothing here returns a batch before ``validate(full=True)`` has passed on it,
and schemas, and what compressed bodies decode to, are held to the limits first. Batches returned
are views of the bytes given, where those are not compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import CapacityError, DamagedEntry, InputError
from quiver.ipc_messages import file_blocks, stream_decoded_bytes

__all__ = [
    "ArrowFile",
    "check_schema",
    "child_types",
    "decode_stream",
    "encode_file",
    "encode_stream",
]

_OPTIONS: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_DEFAULT_LIMITS: Final = LimitsConfig().for_reading()

ARROW_FAULTS: Final = (
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    NotImplementedError,
    OverflowError,
    EOFError,
)
"""What pyarrow was seen to raise on damaged input; all of it means damage here.

A MemoryError does not, although one of them is an ArrowException: ``_out_of_memory`` goes first.
Sizes that lie are refused before anything is allocated, so it says nothing about the bytes.
"""


_FILE_BYTES = 1 << 16
_CHUNK_BYTES = 1024
"""Room for what is around the bodies of a file, and of each chunk in it."""


def encode_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """Write one batch as a complete IPC stream: schema, dictionaries, the batch, end."""
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
            writer.write_batch(batch)
    except MemoryError as error:
        raise _out_of_memory() from error
    return sink.getvalue()


def encode_file(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Buffer:
    """Write batches of one schema as a complete IPC file; chunk ``i`` is ``batches[i]``.

    Dictionaries of a column must be equal in all batches, otherwise pyarrow raises ArrowInvalid.
    """
    try:
        return _encode_within(schema, batches)
    except MemoryError as error:
        raise _out_of_memory() from error


def _encode_within(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.Buffer:
    """Encode into one piece of memory that should do; a sink that grows takes up to three times."""
    guess = _FILE_BYTES + sum(batch.nbytes + _CHUNK_BYTES for batch in batches)
    room = pa.allocate_buffer(guess)
    sink: Any = pa.FixedSizeBufferWriter(room)
    try:
        _write_file(sink, schema, batches)
    except OSError:
        sink = pa.BufferOutputStream()  # It did not: many columns, deeply nested.
        _write_file(sink, schema, batches)
        return sink.getvalue()
    return room.slice(0, sink.tell())


def _write_file(sink: Any, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:  # noqa: ANN401
    with pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        for batch in batches:
            writer.write_batch(batch)


def decode_stream(
    data: pa.Buffer | memoryview | bytes,
    *,
    rows: int | None = None,
    limits: LimitsConfig = _DEFAULT_LIMITS,
) -> pa.RecordBatch:
    """Read an IPC stream that holds exactly one batch, validated in full.

    ``rows`` is what the frame around it promised. Raises DamagedEntry for anything else.
    """
    buffer = _buffer(data)
    _check_decoded(stream_decoded_bytes(memoryview(buffer)), limits)
    try:
        with pa.ipc.open_stream(buffer) as reader:
            check_schema(reader.schema, limits)
            batch = reader.read_next_batch()
            _check_batch(batch, rows, limits)
            if next(iter(reader), None) is not None:
                raise DamagedEntry("an Arrow stream holds more than one batch")
    except StopIteration as error:
        raise DamagedEntry("an Arrow stream holds no batch") from error
    except InputError as error:
        raise DamagedEntry(f"an Arrow stream is refused: {error.message}") from error
    except MemoryError as error:
        raise _out_of_memory() from error
    except ARROW_FAULTS as error:
        raise DamagedEntry(f"an Arrow stream cannot be read: {error}") from error
    return batch


class ArrowFile:
    """An IPC file inside a larger buffer, read chunk by chunk."""

    def __init__(
        self, data: pa.Buffer | memoryview | bytes, *, limits: LimitsConfig = _DEFAULT_LIMITS
    ) -> None:
        """Open it; raises DamagedEntry if it is no Arrow file or its schema breaks a limit."""
        self._limits = limits
        buffer = _buffer(data)
        dictionaries, self._blocks = file_blocks(memoryview(buffer))
        # Arrow keeps all dictionaries, and reads them with the first chunk.
        self._dictionary_bytes = 0
        for index in range(dictionaries.count):
            self._dictionary_bytes += dictionaries.decoded_bytes(index)
            _check_decoded(self._dictionary_bytes, limits)
        try:
            self._reader: Any = pa.ipc.open_file(buffer)
            self.schema: pa.Schema = self._reader.schema
            check_schema(self.schema, limits)
            self.chunk_count: int = self._reader.num_record_batches
        except InputError as error:
            raise DamagedEntry(f"an Arrow file is refused: {error.message}") from error
        except MemoryError as error:
            raise _out_of_memory() from error
        except ARROW_FAULTS as error:
            raise DamagedEntry(f"an Arrow file cannot be read: {error}") from error

    def chunk(self, index: int) -> pa.RecordBatch:
        """Read one batch, validated in full; its buffers lie in the bytes given."""
        if not 0 <= index < self.chunk_count:
            raise DamagedEntry(
                "a chunk is out of range", expected=f"below {self.chunk_count}", found=index
            )
        decoded = self._blocks.decoded_bytes(index)
        _check_decoded(self._dictionary_bytes + decoded, self._limits)
        try:
            batch = self._reader.get_batch(index)
            _check_batch(batch, None, self._limits)
        except MemoryError as error:
            raise _out_of_memory() from error
        except ARROW_FAULTS as error:
            raise DamagedEntry(f"chunk {index} cannot be read: {error}") from error
        return batch

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """Read all batches in order."""
        return (self.chunk(index) for index in range(self.chunk_count))


def check_schema(schema: pa.Schema, limits: LimitsConfig) -> None:
    """Hold a schema to the limits on columns (leaves and all) and nesting; raises InputError.

    Names that are no UTF-8 raise UnicodeDecodeError: Arrow keeps them as bytes until asked.
    """
    todo = [(_named(field), 1) for field in schema]
    seen = len(todo)
    while todo:
        kind, depth = todo.pop()
        if depth > limits.nesting:
            raise InputError(
                f"a column nests deeper than {limits.nesting} levels", hint="limits.nesting"
            )
        children = child_types(kind)
        _check_wrapping(kind, children)
        seen += len(children)
        if seen > limits.columns:
            raise InputError(
                f"a schema has more than {limits.columns} columns", hint="limits.columns"
            )
        todo += [(child, depth + 1) for child in children]


def _check_wrapping(kind: pa.DataType, children: list[pa.DataType]) -> None:
    """Refuse what pyarrow writes and then cannot read, reads as another type, or crashes on.

    A dictionary of dictionaries, a dictionary of extensions, and an extension of an extension.
    """
    inner: tuple[type[pa.DataType], ...] = ()
    if isinstance(kind, pa.DictionaryType):
        inner = (pa.DictionaryType, pa.BaseExtensionType)
    elif isinstance(kind, pa.BaseExtensionType):
        inner = (pa.BaseExtensionType,)
    if inner and isinstance(children[0], inner):
        raise InputError(
            f"Arrow's IPC format cannot keep a {kind}",
            hint="use the type inside it",
        )


def child_types(kind: pa.DataType) -> list[pa.DataType]:
    """Give the types directly inside a type: of values, storage, items or fields."""
    if isinstance(kind, pa.DictionaryType):
        return [kind.value_type]
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if isinstance(kind, pa.RunEndEncodedType):
        return [kind.value_type]
    return [_named(kind.field(index)) for index in range(kind.num_fields)]


def _named(field: pa.Field[Any]) -> pa.DataType:
    """Give the type of a field once its texts have been decoded."""
    _ = (field.name, getattr(field.type, "tz", None))
    return field.type


def _out_of_memory() -> CapacityError:
    return CapacityError(
        "there is not enough memory for Arrow data",
        hint="free memory, then try again: what is on disk is as it was",
    )


def _check_decoded(decoded: int, limits: LimitsConfig) -> None:
    if decoded > limits.decoded_bytes:
        raise DamagedEntry(
            "compressed Arrow data decodes to more than the limit",
            expected=f"at most {limits.decoded_bytes} bytes",
            found=decoded,
            hint="limits.decoded_bytes",
        )


def _check_batch(batch: pa.RecordBatch, rows: int | None, limits: LimitsConfig) -> None:
    if batch.num_rows > limits.rows or (rows is not None and batch.num_rows != rows):
        expected = f"at most {limits.rows}" if rows is None else rows
        raise DamagedEntry(
            "a batch has another number of rows", expected=expected, found=batch.num_rows
        )
    batch.validate(full=True)


def _buffer(data: pa.Buffer | memoryview | bytes) -> pa.Buffer:
    return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
