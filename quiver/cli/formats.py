"""Rows to stdout in each format that ``cat`` and ``sql`` offer, one batch after the other."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from quiver.cli.output import Output, count
from quiver.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BINARY", "refuse_terminal", "write_rows", "write_table"]

BINARY: Final = ("arrow", "parquet")

_BLOCK_ROWS: Final = 1000


def refuse_terminal(kind: str) -> None:
    """Raise InputError if stdout is a terminal and the format is no text."""
    if kind in BINARY and sys.stdout.isatty():
        raise InputError(
            f"{kind} is no text for a terminal",
            hint=f"send it to a file or a program: > rows.{kind}",
        )


def write_rows(
    kind: str,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    whole: Collection[int] = (),
) -> None:
    """Write batches as ``arrow``, ``parquet``, ``csv``, ``ndjson``, or ``json``: one array.

    ``whole`` are the numbers of columns whose decimals are integers and become such in JSON.
    """
    if kind == "ndjson":
        _write_ndjson(batches, schema, whole)
    elif kind == "json":
        _write_json(batches, schema, whole)
    elif kind == "csv":
        _write_csv(batches, schema)
    elif kind == "parquet":
        _write_parquet(batches, schema)
    else:
        _write_arrow(batches, schema)


def write_table(
    output: Output,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    *,
    whole: Collection[int] = (),
) -> None:
    """Write an aligned table for people; a long one in blocks, each with its own widths."""
    from pyarrow import types as kinds

    right = {
        index
        for index, field in enumerate(schema)
        if kinds.is_integer(field.type)
        or kinds.is_floating(field.type)
        or kinds.is_decimal(field.type)
    }
    names = schema.names
    if not names:
        output.text(f"{count(sum(batch.num_rows for batch in batches), 'row')} without columns")
        return
    empty = f"none, of {count(len(names), 'column')}: {', '.join(names)}"
    done = 0
    blocks = _blocks(batches, whole)
    block = next(blocks, [])
    while True:
        following = next(blocks, None)
        first, done = done + 1, done + len(block)
        is_all = first == 1 and following is None
        title = count(done, "row") if is_all and done else f"rows {first:,} to {done:,}"
        output.table(title if done else "rows", names, block, empty=empty, right=right)
        output.flush()
        if following is None:
            return
        block = following


def _blocks(batches: Iterable[pa.RecordBatch], whole: Collection[int]) -> Iterator[list[list[str]]]:
    from quiver.export.text import text_rows

    block: list[list[str]] = []
    for batch in batches:
        for start in range(0, batch.num_rows, _BLOCK_ROWS):
            block += text_rows(batch.slice(start, _BLOCK_ROWS), whole=whole)
            if len(block) >= _BLOCK_ROWS:
                yield block[:_BLOCK_ROWS]
                block = block[_BLOCK_ROWS:]
    if block:
        yield block


def _write_ndjson(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, whole: Collection[int]
) -> None:
    from quiver.export.text import check_names, json_rows

    check_names(schema)
    for batch in batches:
        text = "".join(f"{row}\n" for row in json_rows(batch, whole=whole))
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def _write_json(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, whole: Collection[int]
) -> None:
    from quiver.export.text import check_names, json_rows

    check_names(schema)
    stdout = sys.stdout.buffer
    lead = "["
    for batch in batches:
        text = ",\n".join(json_rows(batch, whole=whole))
        if text:
            stdout.write(f"{lead}{text}".encode())
            stdout.flush()
            lead = ",\n"
    stdout.write(b"[]\n" if lead == "[" else b"]\n")
    stdout.flush()


def _write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    from pyarrow import csv

    from quiver.export.text import check_names, csv_batch, csv_schema

    check_names(schema, nested_only=True)
    with csv.CSVWriter(_sink(), csv_schema(schema)) as writer:
        for batch in batches:
            writer.write_batch(csv_batch(batch))


def _write_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(_sink(), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_parquet(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    from quiver.export.formats import parquet_fault, parquet_refusal

    for field in schema:
        if (fault := parquet_fault(field.type)) is not None:
            raise _no_parquet(field.name, fault)
    batch = None
    try:
        with parquet.ParquetWriter(_sink(), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        for index, field in enumerate(schema):
            column = None if batch is None else batch.column(index)
            reason = parquet_refusal(field, column)
            if reason is not None:
                raise _no_parquet(field.name, reason) from error
        raise


def _no_parquet(column: str, reason: str) -> InputError:
    return InputError(
        f"Parquet cannot hold column {column!r}: {reason}",
        hint="--format arrow can; or leave the column out",
    )


def _sink() -> Any:  # noqa: ANN401
    """Give stdout as Arrow writes it; errors of a reader who hung up come through as they are."""
    import pyarrow as pa

    stdout: Any = sys.stdout.buffer
    return pa.PythonFile(stdout, mode="w")
