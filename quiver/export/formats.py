"""Rows into one file of each format, without loss, or an InputError that names the column.

=======  ======================================================================
parquet  zstd; with the Arrow schema, so that Arrow reads the same types again
arrow    an Arrow IPC file, not compressed, to be mapped
csv      a header; fields as ``text`` says; no nested columns
ndjson   an object for each row; values as ``text`` says
=======  ======================================================================

Indices of dictionaries have at least 32 bits: what several bundles have of words together may be
more than the narrower ones of each can count, and Parquet files with such cannot be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from quiver.casts.nested import Conversion, convert
from quiver.errors import InputError, QuiverError
from quiver.export.text import check_names, csv_batch, csv_schema, json_rows
from quiver.ipc import child_types
from quiver.schemas import change_children

__all__ = [
    "FORMATS",
    "check_schema",
    "holds_one_batch",
    "parquet_fault",
    "parquet_refusal",
    "write_rows",
]

FORMATS: Final = ("parquet", "arrow", "csv", "ndjson")

Batches = Sequence[pa.RecordBatch]
DataType = Any
Sink = Any

_INDEX_BITS: Final = 32
_BUFFER_BYTES: Final = 1 << 20
_ANOTHER: Final = "--to arrow holds every type"
_AS_IT_IS: Final = Conversion(lambda array, kind: array.cast(kind))


def check_schema(kind: str, schema: pa.Schema) -> None:
    """Raise InputError if files of this format cannot hold such columns."""
    if not len(schema) and kind in ("parquet", "csv"):
        raise InputError(f"rows without columns are nothing that {kind} can hold", hint=_ANOTHER)
    if kind == "ndjson":
        check_names(schema)
    for field in schema:
        if kind == "csv" and _is_nested(field.type):
            raise InputError(
                f"CSV cannot hold column {field.name!r}: {field.type} is nested",
                hint="--to ndjson, parquet and arrow can",
            )
        reason = parquet_fault(field.type) if kind == "parquet" else None
        if reason is not None:
            raise InputError(f"Parquet cannot hold column {field.name!r}: {reason}", hint=_ANOTHER)


def holds_one_batch(kind: str, schema: pa.Schema) -> bool:
    """Whether each batch needs a file of its own.

    An Arrow file has one dictionary for each column, and some that two batches have can neither be
    united nor spelt out without another type for the column.
    """
    return kind == "arrow" and any(map(_is_stubborn, schema.types))


def write_rows(kind: str, write: Callable[[Any], object], batches: Batches) -> None:
    """Write batches of one schema, at least one, as the bytes of a whole file."""
    end: Any = _Sink(write)
    with pa.BufferedOutputStream(pa.PythonFile(end, mode="w"), _BUFFER_BYTES) as sink:
        _WRITERS[kind](sink, batches)


def parquet_fault(kind: DataType) -> str | None:
    """Say why a file with such a column, which pyarrow would write, could not be read again."""
    return "lists of size 0 are never read again" if _has_empty_lists(kind) else None


def parquet_refusal(field: Any, column: Any) -> str | None:  # noqa: ANN401
    """Try a column alone: why it cannot be written, None if it can; no column, no rows."""
    from pyarrow import parquet

    schema = pa.schema([field])
    try:
        with parquet.ParquetWriter(pa.BufferOutputStream(), schema) as writer:
            if column is not None:
                writer.write_table(pa.Table.from_arrays([column], schema=schema))
    except (pa.ArrowException, OSError) as error:
        return str(error)
    return None


class _Sink:
    """What pyarrow takes for a file that is open for writing."""

    closed = False

    def __init__(self, write: Callable[[Any], object]) -> None:
        self._write = write

    def write(self, data: Any) -> int:  # noqa: ANN401
        view = memoryview(data)
        self._write(view)
        return view.nbytes

    def flush(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        self.closed = True


def _write_parquet(sink: Sink, batches: Batches) -> None:
    from pyarrow import parquet

    table = _storable(batches)
    try:
        parquet.write_table(table, sink, compression="zstd")
    except QuiverError:
        raise  # Of the disk.
    except (pa.ArrowException, OSError) as error:
        for field, column in zip(table.schema, table.columns, strict=True):
            reason = parquet_refusal(field, column)
            if reason is not None:
                raise InputError(
                    f"Parquet cannot hold column {field.name!r}: {reason}", hint=_ANOTHER
                ) from error
        raise


def _write_arrow(sink: Sink, batches: Batches) -> None:
    if any(map(_has_dictionary, batches[0].schema.types)):
        batches = _joined(batches)
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(sink: Sink, batches: Batches) -> None:
    from pyarrow import csv

    with csv.CSVWriter(sink, csv_schema(batches[0].schema)) as writer:
        for batch in batches:
            writer.write_batch(csv_batch(batch))


def _write_ndjson(sink: Sink, batches: Batches) -> None:
    for batch in batches:
        sink.write("".join(f"{row}\n" for row in json_rows(batch)).encode())


_WRITERS: Final[dict[str, Callable[[Sink, Batches], None]]] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
    "csv": _write_csv,
    "ndjson": _write_ndjson,
}


def _storable(batches: Batches) -> pa.Table:
    """Give the rows as a table that pyarrow writes to Parquet, if it can.

    Dictionaries inside of other types, or with a null among their words, are spelt out.
    """
    schema: Any = batches[0].schema
    fields, columns = [], []
    for place, field in enumerate(schema):
        chunks = [batch.column(place) for batch in batches]
        change = _widened if _keeps_words(field.type, chunks) else _spelt_out
        kind = change(field.type)
        try:
            chunks = [convert(chunk, kind, _AS_IT_IS) for chunk in chunks]
        except pa.ArrowException:  # It may still be written as it is, or else is refused.
            kind = field.type
        fields.append(field.with_type(kind))
        columns.append(pa.chunked_array(chunks, kind))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=schema.metadata))


def _keeps_words(kind: DataType, chunks: Sequence[Any]) -> bool:
    if not isinstance(kind, pa.DictionaryType):
        return False
    words = kind.value_type
    if child_types(words) or kinds.is_string_view(words) or kinds.is_binary_view(words):
        return False
    return not any(chunk.dictionary.null_count for chunk in chunks)


def _joined(batches: Batches) -> Batches:
    """Give the rows as one batch; dictionaries that Arrow does not unite are spelt out."""
    if len(batches) == 1 and holds_one_batch("arrow", batches[0].schema):
        return batches
    wide = _converted(batches, _widened)
    if len(wide) == 1:
        return wide
    try:
        return _united(wide)
    except (pa.ArrowException, OverflowError):
        return _united(_converted(batches, _spelt_out))


def _united(batches: Batches) -> Batches:
    columns = [
        pa.concat_arrays([batch.column(place) for batch in batches])
        for place in range(batches[0].num_columns)
    ]
    united = pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)
    united.validate()
    return [united]


def _converted(batches: Batches, change: Callable[[DataType], DataType]) -> Batches:
    schema: Any = batches[0].schema
    fields = [field.with_type(change(field.type)) for field in schema]
    if all(new.type is old.type for new, old in zip(fields, schema, strict=True)):
        return batches
    changed = pa.schema(fields, metadata=schema.metadata)
    return [
        pa.RecordBatch.from_arrays(
            [
                convert(column, field.type, _AS_IT_IS)
                for column, field in zip(batch.columns, fields, strict=True)
            ],
            schema=changed,
        )
        for batch in batches
    ]


def _widened(kind: DataType) -> DataType:
    if isinstance(kind, pa.DictionaryType):
        if kind.index_type.bit_width >= _INDEX_BITS:
            return kind
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    return _inside(kind, _widened)


def _spelt_out(kind: DataType) -> DataType:
    if isinstance(kind, pa.DictionaryType):
        return _spelt_out(kind.value_type)
    return _inside(kind, _spelt_out)


def _inside(kind: DataType, change: Callable[[DataType], DataType]) -> DataType:
    """Change what is in a nested type, if that can be taken apart and put together."""
    if not _comes_apart(kind):
        return kind

    def changed(field: Any) -> Any:  # noqa: ANN401
        inner = change(field.type)
        return field if inner is field.type else field.with_type(inner)

    return change_children(kind, changed)


_TAKEN_APART: Final = (
    kinds.is_struct,
    kinds.is_list,
    kinds.is_large_list,
    kinds.is_fixed_size_list,
    kinds.is_map,
)


def _comes_apart(kind: DataType) -> bool:
    if not any(belongs(kind) for belongs in _TAKEN_APART):
        return False
    return not kinds.is_struct(kind) or len({field.name for field in kind}) == len(list(kind))


def _is_stubborn(kind: DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return bool(child_types(kind.value_type))
    if _comes_apart(kind):
        return any(map(_is_stubborn, child_types(kind)))
    return _has_dictionary(kind)


def _has_dictionary(kind: DataType) -> bool:
    return isinstance(kind, pa.DictionaryType) or any(map(_has_dictionary, child_types(kind)))


def _has_empty_lists(kind: DataType) -> bool:
    if kinds.is_fixed_size_list(kind) and kind.list_size == 0:
        return True
    return any(map(_has_empty_lists, child_types(kind)))


def _is_nested(kind: DataType) -> bool:
    """Whether values have parts, under dictionaries, runs and extensions."""
    while isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType | pa.BaseExtensionType):
        (kind,) = child_types(kind)
    return bool(kinds.is_nested(kind))
