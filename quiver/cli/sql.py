"""``quiver sql``: one SQL statement over the slots of a store."""

from __future__ import annotations

import sys
from typing import Final

import click

from quiver.cli.formats import refuse_terminal, write_rows, write_table
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import InputError

__all__ = ["sql"]

_FORMATS: Final = ("table", "csv", "json", "ndjson", "parquet", "arrow")


@verb(
    "sql",
    examples=(
        ('quiver sql store "select * from events limit 5"', "a slot is a table of its name"),
        ('quiver sql store "select level, count(*) from logs group by all"', ""),
        ('quiver sql store "show tables"', "the slots that have rows"),
        ("quiver sql store --file q.sql --format parquet > out.parquet", "a longer one"),
    ),
    reports=False,
)
@click.argument("folder", metavar="DIR")
@click.argument("query", metavar="SQL", required=False)
@click.option("--file", metavar="FILE", help="Read the statement from a file; - is stdin.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="Default: table on a terminal, else csv.",
)
@click.option("--include-open", is_flag=True, help="Bundles too that are only in the log yet.")
def sql(
    output: Output,
    *,
    folder: str,
    query: str | None,
    file: str | None,
    kind: str | None,
    include_open: bool,
) -> None:
    """Run SQL over the slots of a store.

    One statement that reads, in the SQL of DuckDB. Each slot is a table; names with dots or dashes
    need double quotes. Seen are finalized segments, as in cat, and the log if asked for; columns
    and rows that a query does not need are not read. SQL can touch no file and load no extension;
    times are shown in UTC, and those in nanoseconds with a zone have more functions after a cast,
    as in at_time::timestamptz.
    """
    text = _statement(query, file)
    kind = kind or ("table" if sys.stdout.isatty() else "csv")
    refuse_terminal(kind)

    from quiver.cli.query import ask

    with ask(folder, text, include_open=include_open) as answer:
        for note in answer.notes:
            output.say(note)
        if kind == "table" and answer.is_plan:
            for batch in answer.batches:
                for drawing in batch.column(1).to_pylist():
                    for line in str(drawing).splitlines():
                        output.text(line)
        elif kind == "table":
            write_table(output, answer.batches, answer.schema, whole=answer.whole)
        else:
            write_rows(kind, answer.batches, answer.schema, whole=answer.whole)


def _statement(query: str | None, file: str | None) -> str:
    """Take the statement from where it is; raises InputError, or wrong usage if it is nowhere."""
    if (query is None) == (file is None):
        raise click.UsageError(
            "say what to run: one SQL statement, or --file FILE",
            ctx=click.get_current_context(),
        )
    if file is None:
        return query or ""
    try:
        if file == "-":
            return sys.stdin.buffer.read().decode()
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError as error:
        raise InputError(
            f"cannot read {file}: {error.strerror}", hint="name a file that this user can read"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text in UTF-8: {error}", hint="save it as UTF-8") from error
