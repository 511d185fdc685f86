"""``quiver view``: what a collection holds, or what changed in it, to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli import collected
from quiver.cli.formats import refuse_terminal, write_rows
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.queues.desk import open_place, store_options
from quiver.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.upsert.viewing import Errors, Layout

__all__ = ["view"]

_FORMATS: Final = ("arrow", "ndjson", "csv", "parquet")


@verb(
    "view",
    examples=(
        ("quiver view users --limit 5", "the first rows as JSON"),
        ("quiver view s3://bucket/users > users.arrow", "all rows as an Arrow stream"),
        ("quiver view users --as-of 2026-01-31T12:00Z --format csv", "as it was at a time"),
        ("quiver view users --changes --after 41", "what came and went behind epoch 41"),
        ("quiver view users --stat", "what it consists of"),
    ),
)
@click.argument("path", metavar="PATH")
@click.option("--as-of", metavar="EPOCH|TIME", help="The state as of then. Default: now.")
@click.option("--changes", is_flag=True, help="What came (_diff 1) and went (-1), with its _time.")
@click.option(
    "--after", metavar="EPOCH|TIME", help="With --changes: only those behind it. Default: all."
)
@click.option("--through", metavar="EPOCH|TIME", help="With --changes: only those up to it.")
@click.option(
    "--errors",
    type=click.Choice(["fail", "skip", "only"]),
    default="fail",
    show_default=True,
    help="What becomes of error rows: a refusal, left out, or only these.",
)
@click.option(
    "--layout",
    type=click.Choice(["flat", "structs"]),
    default="flat",
    show_default=True,
    help="The columns of key and value, or these two.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="Default: ndjson on a terminal and with --json, else arrow (a stream).",
)
@click.option("--columns", metavar="A,B", help="Only these columns, in this order.")
@click.option("--limit", type=click.IntRange(0, COUNT_MAX), metavar="N", help="Stop after N rows.")
@click.option("--stat", is_flag=True, help="Say what the collection consists of instead.")
@click.option(
    "--tend",
    is_flag=True,
    help="Take over as its writer, and fold, forget and sweep what is due instead.",
)
@click.option(
    "--history",
    type=click.IntRange(1, COUNT_MAX),
    default=100,
    show_default=True,
    metavar="N",
    help="With --tend: epochs back from the newest that stay readable.",
)
@store_options
def view(
    output: Output,
    *,
    path: str,
    as_of: str | None,
    changes: bool,
    after: str | None,
    through: str | None,
    errors: Errors,
    layout: Layout,
    kind: str | None,
    columns: str | None,
    limit: int | None,
    stat: bool,
    tend: bool,
    history: int,
    options: tuple[str, ...],
) -> None:
    """Write what a collection holds, or what changed in it, to stdout.

    PATH is the folder of a collection, or s3://BUCKET/PATH, az://CONTAINER/PATH, gs://BUCKET/PATH,
    with credentials from the environment. What is read is one snapshot, whoever writes meanwhile,
    and nobody is disturbed. Rows come bucket by bucket: those of one key together, keys in no order
    that means anything.

    An EPOCH is the number of an append; a TIME, such as 2026-01-31T12:00Z, is UTC if it names no
    zone, and stands for the last append until then. Both must lie between what --stat says.

    Whoever writes a collection tends it as well, behind each append. --tend is for one that nobody
    writes any more: who writes it all the same is fenced, and ends with exit code 4.
    """
    from quiver.upsert.viewing import View

    if not changes and (after is not None or through is not None):
        raise _usage("--after and --through are for --changes")
    if changes and as_of is not None:
        raise _usage("--as-of is for a state; of changes it is --through")
    if stat and tend:
        raise _usage("--stat and --tend: only one of them")
    is_read = changes or any(each is not None for each in (as_of, columns, limit, kind))
    if (stat or tend) and is_read:
        raise _usage(
            f"{'--stat' if stat else '--tend'} gives no rows: leave out what is about them"
        )
    if tend:
        collected.tend(output, open_place(path, options, probed=True), history=history)
        return
    found = View(open_place(path, options))
    if stat:
        collected.stat(output, found)
        return
    kind = kind or ("ndjson" if output.as_json or sys.stdout.isatty() else "arrow")
    refuse_terminal(kind)
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    how: dict[str, Any] = {"columns": names, "errors": errors, "layout": layout}
    if changes:
        begin, end = _moment(after, "--after"), _moment(through, "--through")
        reader = found.changes(after=begin, through=end, **how)
    else:
        reader = found.to_reader(as_of=_moment(as_of, "--as-of"), **how)
    batches = reader if limit is None else _first(reader, limit)
    output.flush()
    write_rows(kind, batches, reader.schema)


def _usage(message: str) -> click.UsageError:
    return click.UsageError(message, ctx=click.get_current_context())


def _moment(text: str | None, option: str) -> int | datetime | None:
    """Read an epoch or a time; raises InputError."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{option}: {text!r:.100} is no epoch and no time",
            hint="as 42, or 2026-01-31T12:00Z",
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if limit < 1:
            return
        yield batch.slice(0, limit)
        limit -= batch.num_rows
