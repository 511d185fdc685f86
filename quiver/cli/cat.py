"""``quiver cat``: the rows of a slot to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.formats import refuse_terminal, write_rows
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["cat"]

_FORMATS: Final = ("arrow", "ndjson", "csv", "parquet")


@verb(
    "cat",
    examples=(
        ("quiver cat store --slot events --limit 5", "the first rows as JSON"),
        ("quiver cat store --slot events > events.arrow", "all rows as an Arrow stream"),
        ("quiver cat store --slot events --format csv --columns id,name", "two columns as CSV"),
        ("quiver cat store --slot events --since 2026-01-31T12:00Z", "what came from then on"),
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
@click.option("--since", metavar="TIME", help="Bundles of this time (ISO 8601) or later.")
@click.option("--until", metavar="TIME", help="Bundles of before this time.")
@click.option("--include-open", is_flag=True, help="Bundles too that are only in the log yet.")
def cat(
    output: Output,
    *,
    folder: str,
    slot: str,
    kind: str | None,
    columns: str | None,
    limit: int | None,
    since: str | None,
    until: str | None,
    include_open: bool,
) -> None:
    """Write the rows of a slot to stdout.

    Rows come by core, segment and bundle, from finalized segments; what is still in the WAL is seen
    only if it is asked for. Times are those of ingestion, in ISO 8601 (UTC without a zone) or in
    nanoseconds since 1970; --since is included and --until is not. CSV gets nested values as JSON
    text, an empty field for null and a quoted empty one for an empty text.
    """
    from quiver.scan import scan

    kind = kind or ("ndjson" if sys.stdout.isatty() else "arrow")
    refuse_terminal(kind)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    rows = scan(
        folder,
        slot=slot,
        columns=names,
        ingestion_time=(_time(since), _time(until)),
        include_open=include_open,
    )
    reader = rows.to_reader()
    batches = reader if limit is None else _first(reader, limit)
    output.flush()
    write_rows(kind, batches, reader.schema)


def _time(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if limit < 1:
            return
        yield batch.slice(0, limit)
        limit -= batch.num_rows
