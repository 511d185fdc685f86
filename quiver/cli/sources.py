"""Files that ``ingest`` reads, as Arrow batches: never more than a block of one in memory.

===========  ===================================  ==============================================
format       known by                             read as
===========  ===================================  ==============================================
parquet      ``PAR1``                             row groups, in slices
arrow file   ``ARROW1``                           its chunks, mapped
arrow stream a schema message                     its batches
ndjson       ``.ndjson .jsonl .json``, or ``{``   blocks of lines; a type may widen on the way
csv          ``.csv .tsv``, or else               blocks; types come from the first one
===========  ===================================  ==============================================

Every fault in a file becomes an InputError that names it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import csv, json, parquet

from quiver.config import LimitsConfig
from quiver.errors import DamageError, InputError
from quiver.ipc import ARROW_FAULTS, ArrowFile, check_schema
from quiver.promote import union_schema
from quiver.scan import conform

__all__ = ["Source", "open_source"]

Batches = Iterator[pa.RecordBatch]

_BLOCK: Final = 16 << 20
_SLICE_ROWS: Final = 1 << 16
_LIMITS: Final = LimitsConfig()
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_BY_SUFFIX: Final = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".tsv": "csv",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One file for one slot; ``nulls`` are the texts that a CSV file has for no value."""

    slot: str
    path: str
    format_name: str
    file_bytes: int
    nulls: tuple[str, ...] = ("",)

    def batches(self) -> Batches:
        """Read the file from its beginning; raises InputError that names it."""
        with _named(self.path, self.format_name):
            for batch in _READERS[self.format_name](self):
                batch.validate(full=True)
                yield batch

    def table(self) -> pa.Table:
        """Read the whole file into memory, under one schema."""
        batches = list(self.batches())
        if not batches:
            raise InputError(f"{self.path} holds no rows")
        with _named(self.path, self.format_name):
            schema = union_schema(batch.schema for batch in batches)
            return pa.Table.from_batches([conform(b, schema) for b in batches], schema=schema)


def open_source(slot: str, path: str, nulls: tuple[str, ...]) -> Source:
    """Look at a file: what format it is and that it can be read at all."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            file_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    if not head:
        raise InputError(f"{path} is empty", hint="it has no bytes, so not even a schema")
    return Source(slot, path, _recognize(path, head), file_bytes, nulls or ("",))


def _recognize(path: str, head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow file"
    if head.startswith(_CONTINUATION):
        return "arrow stream"
    known = _BY_SUFFIX.get(os.path.splitext(path)[1].lower())
    if known is not None:
        return known
    if b"\0" in head:
        raise InputError(
            f"{path} is of no format that can be ingested",
            hint="Parquet, Arrow file or stream, NDJSON, CSV",
        )
    return "ndjson" if head.lstrip().startswith(b"{") else "csv"


@contextmanager
def _named(path: str, format_name: str) -> Iterator[None]:
    """Turn whatever a reader raises about a file into an InputError that names it."""
    try:
        yield
    except InputError as error:
        if path in error.message:
            raise
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    except DamageError as error:
        raise InputError(f"{path} cannot be read as {format_name}: {error}") from error
    except ARROW_FAULTS as error:
        hint = _TYPE_HINT if format_name == "csv" and "conversion" in str(error) else ""
        raise InputError(f"{path} cannot be read as {format_name}: {error}", hint=hint) from error


_TYPE_HINT: Final = (
    "types of CSV columns come from the first 16 MiB; --null names texts that mean no value, "
    "and Parquet files have types of their own"
)


def _parquet(source: Source) -> Batches:
    with parquet.ParquetFile(source.path, memory_map=True) as file:
        check_schema(file.schema_arrow, _LIMITS)
        yield from file.iter_batches(batch_size=_SLICE_ROWS)


def _arrow_file(source: Source) -> Batches:
    with pa.memory_map(source.path) as mapped:
        yield from ArrowFile(mapped.read_buffer()).chunks()


def _arrow_stream(source: Source) -> Batches:
    with open(source.path, "rb") as file, pa.ipc.open_stream(file) as reader:
        check_schema(reader.schema, _LIMITS)
        yield from reader


def _csv(source: Source) -> Batches:
    tab = source.path.lower().endswith(".tsv")
    options = csv.ConvertOptions(
        null_values=list(source.nulls), strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    with csv.open_csv(
        source.path,
        read_options=csv.ReadOptions(block_size=_BLOCK),
        parse_options=csv.ParseOptions(delimiter="\t" if tab else ",", newlines_in_values=True),
        convert_options=options,
    ) as reader:
        yield from reader


def _ndjson(source: Source) -> Batches:
    """Read blocks of lines one by one: each may widen a type, none may contradict the others."""
    schema: pa.Schema | None = None
    with open(source.path, "rb") as file:
        for offset, block in _line_blocks(file):
            options = json.ReadOptions(block_size=len(block) + 1)
            try:
                table = json.read_json(io.BytesIO(block), read_options=options)
            except pa.ArrowInvalid as error:
                raise InputError(f"in the lines from byte {offset:,} on: {error}") from error
            schema = table.schema if schema is None else union_schema([schema, table.schema])
            yield from table.to_batches(max_chunksize=_SLICE_ROWS)


def _line_blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Cut a file behind the ends of lines; give each piece that is not blank with its offset."""
    offset = 0
    parts: list[bytes] = []
    while data := file.read(_BLOCK):
        cut = data.rfind(b"\n") + 1
        if not cut:
            parts.append(data)
            continue
        block = b"".join([*parts, data[:cut]])
        if not block.isspace():
            yield offset, block
        offset += len(block)
        parts = [data[cut:]]
    rest = b"".join(parts)
    if rest.strip():
        yield offset, rest


_READERS: Final[dict[str, Callable[[Source], Any]]] = {
    "parquet": _parquet,
    "arrow file": _arrow_file,
    "arrow stream": _arrow_stream,
    "csv": _csv,
    "ndjson": _ndjson,
}
