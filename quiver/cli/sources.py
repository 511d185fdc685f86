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
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import csv, json, parquet

from quiver.config import LimitsConfig
from quiver.errors import DamageError, InputError
from quiver.ipc import ARROW_FAULTS, check_schema
from quiver.ipc_file import ArrowFile
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
    """Look at a file: what format it is and that it can be read at all.

    A pipe is refused: it is opened again to be read, and what was read here would be gone by then.
    """
    try:
        # Without O_NONBLOCK a named pipe would wait here for somebody to write to it.
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            is_regular = stat.S_ISREG(found.st_mode)
            head = file.read(64) if is_regular else b""
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", hint="name a file that this user can read"
        ) from error
    if not is_regular:
        raise InputError(f"{path} is no regular file", hint="write it to a file first")
    if not head:
        raise InputError(f"{path} is empty", hint="it has no bytes, so not even a schema")
    return Source(slot, path, _recognize(path, head), found.st_size, nulls or ("",))


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


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
        # A limit's hint stays behind where its refusal becomes damage of the file.
        hint = error.hint or getattr(error.__cause__, "hint", "") or _hint(str(error), format_name)
        text = str(error).removesuffix(f" ({error.hint})")
        raise InputError(f"{path} cannot be read as {format_name}: {text}", hint=hint) from error
    except ARROW_FAULTS as error:
        hint = _hint(str(error), format_name)
        raise InputError(f"{path} cannot be read as {format_name}: {error}", hint=hint) from error


def _hint(fault: str, format_name: str) -> str:
    """Say what may help against what Arrow found wrong."""
    if format_name == "csv" and "conversion" in fault:
        return _TYPE_HINT
    if format_name == "csv" and "columns, got" in fault:
        return "each line needs as many fields as the first; quote those that contain the separator"
    if re.search("utf-?8", fault, re.IGNORECASE):
        return "texts and names must be UTF-8; columns of other bytes must be of type binary"
    return "it may be damaged, cut short, or of another format than its name or beginning says"


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
        file = ArrowFile(mapped.read_buffer())
        check_schema(file.schema, _LIMITS)
        yield from file.chunks()


def _arrow_stream(source: Source) -> Batches:
    with open(source.path, "rb") as file, pa.ipc.open_stream(file) as reader:
        check_schema(reader.schema, _LIMITS)
        yield from reader


def _csv(source: Source) -> Batches:
    separator = "\t" if source.path.lower().endswith(".tsv") else ","
    _check_quotes(source.path, separator)
    options = csv.ConvertOptions(
        null_values=list(source.nulls), strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    with csv.open_csv(
        source.path,
        read_options=csv.ReadOptions(block_size=_BLOCK),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=options,
    ) as reader:
        yield from reader


def _check_quotes(path: str, separator: str) -> None:
    """Refuse a file that ends inside of quotes: Arrow would take all that follows for one value.

    Quotes come in pairs, unless some stand inside of fields that are not quoted. So they are only
    counted, and if the number is odd it is looked up where each field ends.
    """
    with open(path, "rb") as file:
        counts = (block.count(b'"') for block in iter(lambda: file.read(_BLOCK), b""))
        if sum(counts) % 2 == 0:
            return
    edge = re.escape(separator.encode()) + rb"\r\n"
    field = re.compile(rb'(?:"(?:[^"]++|"")*+"|(?!"))[^%b]*+[%b]*+' % (edge, edge))
    with pa.memory_map(path) as mapped:
        data = memoryview(mapped.read_buffer())
        place = 0
        while place < len(data):
            match = field.match(data, place)
            if match is None:
                raise InputError(
                    f"{path}: the quote at byte {place:,} is never closed",
                    hint="the file may have been cut short; a quote in a quoted field is doubled",
                )
            place = match.end()


def _ndjson(source: Source) -> Batches:
    """Read blocks of lines one by one: each may widen a type, none may contradict the others."""
    schema: pa.Schema | None = None
    with open(source.path, "rb") as file:
        for offset, block in _line_blocks(file):
            options = json.ReadOptions(block_size=len(block) + 1)
            try:
                table = json.read_json(io.BytesIO(block), read_options=options)
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"in the lines from byte {offset:,} on: {error}",
                    hint="each line is one JSON object, with values of one type for each name",
                ) from error
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
