"""``quiver cat``: the rows of a slot to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["cat"]

_FORMATS: Final = ("arrow", "ndjson", "csv", "parquet")
_BINARY: Final = ("arrow", "parquet")


@verb(
    "cat",
    examples=(
        ("quiver cat store --slot events --limit 5", "the first rows as JSON"),
        ("quiver cat store --slot events > events.arrow", "all rows as an Arrow stream"),
        ("quiver cat store --slot events --format csv --columns id,name", "two columns as CSV"),
    ),
    reports=False,
)
@click.argument("folder", metavar="DIR")
@click.option("--slot", required=True, metavar="NAME", help="The slot to read.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="Default: ndjson on a terminal, else arrow (a stream).",
)
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option("--limit", type=click.IntRange(0, COUNT_MAX), metavar="N", help="Stop after N rows.")
def cat(
    output: Output,
    *,
    folder: str,
    slot: str,
    kind: str | None,
    columns: str | None,
    limit: int | None,
) -> None:
    """Write the rows of a slot to stdout.

    Rows come by core, segment and bundle, from finalized segments only: what is still in the WAL is
    not seen. CSV gets nested values as JSON text, an empty field for null and a quoted empty one
    for an empty text.
    """
    from quiver.scan import scan

    is_terminal = sys.stdout.isatty()
    kind = kind or ("ndjson" if is_terminal else "arrow")
    if kind in _BINARY and is_terminal:
        raise InputError(
            f"{kind} is no text for a terminal", hint="send it to a file or a program: > rows.arrow"
        )
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    rows = scan(folder, slot=slot, columns=names)
    reader = rows.to_reader()
    batches = reader if limit is None else _first(reader, limit)
    output.flush()
    if kind == "ndjson":
        _write_ndjson(batches, reader.schema)
    elif kind == "csv":
        _write_csv(batches, reader.schema)
    elif kind == "parquet":
        _write_parquet(batches, reader.schema)
    else:
        _write_arrow(batches, reader.schema)


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if limit < 1:
            return
        yield batch.slice(0, limit)
        limit -= batch.num_rows


def _write_ndjson(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    from quiver.cli.rows import check_names, json_rows

    check_names(schema)
    for batch in batches:
        text = "".join(f"{row}\n" for row in json_rows(batch))
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def _write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    from pyarrow import csv

    from quiver.cli.rows import check_names, csv_batch, csv_schema

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

    batch = None
    try:
        with parquet.ParquetWriter(_sink(), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        for index, field in enumerate(schema):
            column = None if batch is None else batch.column(index)
            reason = _parquet_refusal(field, column)
            if reason is not None:
                raise InputError(
                    f"Parquet cannot hold column {field.name!r}: {reason}",
                    hint="--format arrow can; --columns leaves columns out",
                ) from error
        raise


def _parquet_refusal(field: Any, column: Any) -> str | None:  # noqa: ANN401
    """Try a column alone: why it cannot be written, None if it can; no column, no rows."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([field])
    try:
        with parquet.ParquetWriter(pa.BufferOutputStream(), schema) as writer:
            if column is not None:
                writer.write_batch(pa.RecordBatch.from_arrays([column], schema=schema))
    except (pa.ArrowException, OSError) as error:
        return str(error)
    return None


def _sink() -> Any:  # noqa: ANN401
    """Give stdout as Arrow writes it; errors of a reader who hung up come through as they are."""
    import pyarrow as pa

    stdout: Any = sys.stdout.buffer
    return pa.PythonFile(stdout, mode="w")
