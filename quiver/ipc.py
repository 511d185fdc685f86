"""Arrow batches to bytes and back: the one door through which foreign bytes become Arrow data.

Arrow's readers trust what they read; unvalidated damage kills the process when it is used, not
when it is opened. So nothing here returns a batch before ``validate(full=True)`` has passed on it,
and schemas, and what compressed bodies decode to, are held to the limits first. Batches returned
are views of the bytes given, where those are not compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from quiver.config import Compression, LimitsConfig
from quiver.errors import CapacityError, DamagedEntry, InputError
from quiver.ipc_messages import stream_decoded_bytes
from quiver.ipc_shapes import Shapes

__all__ = [
    "ARROW_FAULTS",
    "as_buffer",
    "check_batch",
    "check_decoded",
    "check_rows",
    "check_schema",
    "child_types",
    "decode_own_streams",
    "decode_stream",
    "encode_file",
    "encode_stream",
    "out_of_memory",
    "schema_message",
]

_OPTIONS: Final = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSED: Final = {
    "none": _OPTIONS,
    "lz4": pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False),
    "zstd": pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False),
}
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

A MemoryError does not, although one of them is an ArrowException: ``out_of_memory`` goes first.
Sizes that lie are refused before anything is allocated, so it says nothing about the bytes.
"""


_SMALL_BYTES = 8 << 10
_SCHEMA_PREFIX = 8
_END = b"\xff\xff\xff\xff\0\0\0\0"
_END_BYTES = len(_END)
"""What is around the messages of a stream: the length of the first, and the mark of its end."""

_KNOWN_SCHEMAS: dict[tuple[bytes, int, int], pa.Schema | None] = {}
"""First messages of streams whose schemas passed, and the limits that they passed under.

With the schema where a batch of it can be read without its stream.
"""
_EXTENSION: Final = b"ARROW:extension:name"
_KNOWN_MAX = 64
_KNOWN_BYTES_MAX = 1 << 14
_SHAPES: Final = Shapes()
"""How streams were laid out that came before."""

_FILE_BYTES = 1 << 16
_CHUNK_BYTES = 1024
"""Room for what is around the bodies of a file, and of each chunk in it."""
_WASTE = 8
"""A file that leaves this part of its room empty is copied out of it: segments hold many."""


def encode_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """Write one batch as a complete IPC stream: schema, dictionaries, the batch, end."""
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
            writer.write_batch(batch)
    except MemoryError as error:
        raise out_of_memory() from error
    return sink.getvalue()


def encode_file(
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch] | pa.Table,
    *,
    compression: Compression = "none",
    body_bytes: int | None = None,
) -> pa.Buffer:
    """Write batches of one schema as a complete IPC file; chunk ``i`` is ``batches[i]``.

    Or the chunks of a table, if all of them have rows and columns: of others it loses count.
    Dictionaries of a column must be equal in all batches, otherwise pyarrow raises ArrowInvalid.
    ``body_bytes`` says about how large all buffers are, if the caller knows; to count takes time.
    """
    if body_bytes is None:
        body_bytes = (
            batches.nbytes
            if isinstance(batches, pa.Table)
            else sum(batch.nbytes for batch in batches)
        )
    try:
        return _encode_within(schema, batches, body_bytes, options=_COMPRESSED[compression])
    except MemoryError as error:
        raise out_of_memory() from error


def _encode_within(
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch] | pa.Table,
    body_bytes: int,
    *,
    options: pa.ipc.IpcWriteOptions,
) -> pa.Buffer:
    """Encode into one piece of memory that should do; a sink that grows takes up to three times."""
    chunks = len(batches)
    if isinstance(batches, pa.Table):
        chunks = batches.column(0).num_chunks
    guess = _FILE_BYTES + body_bytes + _CHUNK_BYTES * chunks
    room = pa.allocate_buffer(guess)
    sink: Any = pa.FixedSizeBufferWriter(room)
    try:
        _write_file(sink, schema, batches, options=options)
    except OSError:
        sink = pa.BufferOutputStream()  # It did not: many columns, deeply nested.
        _write_file(sink, schema, batches, options=options)
        return sink.getvalue()
    used = sink.tell()
    written = room.slice(0, used)
    if (guess - used) * _WASTE < guess:
        return written
    kept = pa.allocate_buffer(used)  # A view would keep all of the room.
    end: Any = pa.FixedSizeBufferWriter(kept)
    end.write(written)
    return kept


def _write_file(
    sink: Any,  # noqa: ANN401
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch] | pa.Table,
    *,
    options: pa.ipc.IpcWriteOptions,
) -> None:
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        if isinstance(batches, pa.Table):
            writer.write_table(batches)
            return
        if batches and len(schema) and all(batch.num_rows for batch in batches):
            writer.write_table(pa.Table.from_batches(batches, schema))
            return
        for batch in batches:  # A table does not show chunks without rows.
            writer.write_batch(batch)


def decode_stream(
    data: pa.Buffer | memoryview | bytes,
    *,
    rows: int | None = None,
    limits: LimitsConfig = _DEFAULT_LIMITS,
    is_plain: bool = False,
) -> pa.RecordBatch:
    """Read an IPC stream that holds exactly one batch, validated in full.

    ``rows`` is what the frame around it promised, and ``is_plain`` that nothing is compressed.
    Raises DamagedEntry for anything else.
    """
    buffer = as_buffer(data)
    view, schema = memoryview(buffer), schema_message(buffer)
    key = schema, limits.columns, limits.nesting
    is_known = _SHAPES.is_plain(view, schema)
    if not is_known:
        _check_bodies(view, limits, is_plain=is_plain)
    known = _KNOWN_SCHEMAS.get(key) if is_known else None
    try:
        if known is None:
            batch = _read_stream(buffer, key, limits, rows=rows, is_known=is_known)
        else:
            batch = pa.ipc.read_record_batch(buffer.slice(len(schema)), known)
            check_batch(batch, rows, limits)
    except StopIteration as error:
        raise DamagedEntry("an Arrow stream holds no batch") from error
    except InputError as error:
        raise DamagedEntry(f"an Arrow stream is refused: {error.message}") from error
    except MemoryError as error:
        raise out_of_memory() from error
    except ARROW_FAULTS as error:
        raise DamagedEntry(f"an Arrow stream cannot be read: {error}") from error
    return batch


def _read_stream(
    buffer: pa.Buffer,
    key: tuple[bytes, int, int],
    limits: LimitsConfig,
    *,
    rows: int | None,
    is_known: bool,
) -> pa.RecordBatch:
    """Read a stream as one, and remember how it is laid out unless that is known."""
    with pa.ipc.open_stream(buffer) as reader:
        if key not in _KNOWN_SCHEMAS:
            check_schema(reader.schema, limits)
            _remember(key, reader.schema)
        batch = reader.read_next_batch()
        check_batch(batch, rows, limits)
        if not is_known:
            if next(iter(reader), None) is not None:
                raise DamagedEntry("an Arrow stream holds more than one batch")
            if len(key[0]) <= _KNOWN_BYTES_MAX:
                _SHAPES.learn(memoryview(buffer), key[0])
    return batch


def _check_bodies(view: memoryview, limits: LimitsConfig, *, is_plain: bool) -> None:
    """Hold what the bodies of a stream decode to against the limit, or refuse that they have to."""
    decoded = stream_decoded_bytes(view)
    check_decoded(decoded, limits)
    if decoded and is_plain:
        raise DamagedEntry("an Arrow stream is compressed", found=f"{decoded:,} bytes in it")


def _remember(key: tuple[bytes, int, int], schema: pa.Schema) -> None:
    """Keep a schema that is within the limits: most streams have one that was seen before."""
    message = key[0]
    if message[:4] != _END[:4] or len(message) > _KNOWN_BYTES_MAX:
        return  # In streams of the oldest kind this is not all of the message.
    if len(_KNOWN_SCHEMAS) >= _KNOWN_MAX:
        _KNOWN_SCHEMAS.clear()
    _KNOWN_SCHEMAS[key] = schema if _stands_alone(schema, message) else None


def _stands_alone(schema: pa.Schema, message: bytes) -> bool:
    """Whether a batch of it can be read without its stream, for a fifth of what that takes.

    Not with dictionaries, which come before it. Nor if it may be another one tomorrow, since its
    types have names that programs give a meaning; nor if it was not written as Arrow does here, as
    by a machine whose bytes have another order.
    """
    todo = [field.type for field in schema]
    while todo:
        kind = todo.pop()
        if isinstance(kind, pa.DictionaryType):
            return False
        todo += child_types(kind)
    return _EXTENSION not in message and schema.serialize().to_pybytes() == message


def decode_own_streams(payloads: Sequence[pa.Buffer | memoryview | bytes]) -> list[pa.RecordBatch]:
    """Read streams of one batch each that ``encode_stream`` wrote, all of one schema; no checks.

    Only for bytes that are known to be sound, of this process or validated before. Batches are
    views, where payloads are not so small that reading them as one costs less.
    """
    views = [memoryview(data) for data in payloads]
    large = sum(map(len, views)) > _SMALL_BYTES * len(views)
    # Another writer's stream may end without saying so.
    if large or any(bytes(view[-_END_BYTES:]) != _END for view in views):
        return [_first_batch(as_buffer(data)) for data in payloads]
    schema = schema_message(views[0])
    bodies = (view[len(schema) : -_END_BYTES] for view in views)
    with pa.ipc.open_stream(pa.py_buffer(b"".join([schema, *bodies]))) as reader:
        return list(reader)


def schema_message(data: pa.Buffer | memoryview | bytes) -> bytes:
    """Copy the first message of a stream; streams in which it is the same have one schema."""
    view = memoryview(data)
    return bytes(view[: _SCHEMA_PREFIX + int.from_bytes(view[4:_SCHEMA_PREFIX], "little")])


def _first_batch(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


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


def out_of_memory() -> CapacityError:
    """Say as one of our errors that Arrow found no memory."""
    return CapacityError(
        "there is not enough memory for Arrow data",
        hint="free memory, then try again: what is on disk is as it was",
    )


def check_decoded(decoded: int, limits: LimitsConfig) -> None:
    """Hold what compressed bodies decode to against the limit; raises DamagedEntry."""
    if decoded > limits.decoded_bytes:
        raise DamagedEntry(
            "compressed Arrow data decodes to more than the limit",
            expected=f"at most {limits.decoded_bytes} bytes",
            found=decoded,
            hint="limits.decoded_bytes",
        )


def check_batch(batch: pa.RecordBatch, rows: int | None, limits: LimitsConfig) -> None:
    """Validate a batch in full, and its rows against what was promised, if that is known."""
    check_rows(batch, rows, limits)
    batch.validate(full=True)


def check_rows(batch: pa.RecordBatch, rows: int | None, limits: LimitsConfig) -> None:
    """Raise DamagedEntry unless a batch has as many rows as promised, and as the limits allow."""
    if batch.num_rows > limits.rows or (rows is not None and batch.num_rows != rows):
        expected = f"at most {limits.rows}" if rows is None else rows
        raise DamagedEntry(
            "a batch has another number of rows", expected=expected, found=batch.num_rows
        )


def as_buffer(data: pa.Buffer | memoryview | bytes) -> pa.Buffer:
    """View bytes as a buffer of Arrow."""
    return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
