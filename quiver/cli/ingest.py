"""``quiver ingest``: files into a store, as bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.opening import config_options, open_store, strict_option
from quiver.cli.output import Output, count
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.scraping import check_endpoint, metrics_option, scraped
from quiver.errors import InputError, MissingError

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.cli.sources import Source
    from quiver.engine import Store

__all__ = ["ingest"]

_BATCH_ROWS: Final = 65_536


@dataclass(slots=True)
class _Tally:
    """What was appended so far."""

    bundle_count: int = 0
    wal_seq_first: int | None = None
    wal_seq_last: int | None = None
    rows: Counter[str] = field(default_factory=Counter)

    def add(self, wal_seq: int, bundle: dict[str, pa.Table]) -> int:
        """Count one bundle; gives its rows."""
        if self.wal_seq_first is None:
            self.wal_seq_first = wal_seq
        self.wal_seq_last = wal_seq
        self.bundle_count += 1
        self.rows.update({slot: table.num_rows for slot, table in bundle.items()})
        return sum(table.num_rows for table in bundle.values())

    def __str__(self) -> str:
        if not self.bundle_count:
            return "no bundle"
        bundles = count(self.bundle_count, "bundle")
        return f"{bundles}, wal_seq {self.wal_seq_first} to {self.wal_seq_last}"


@verb(
    "ingest",
    examples=(
        ("quiver ingest store --slot events=events.parquet", "one file, 65,536 rows a bundle"),
        ("quiver ingest store --slot logs=l.csv --slot traces=t.arrow", "two slots, side by side"),
        ("quiver ingest store --slot a=a.ndjson --slot b=b.ndjson --by id", "a bundle for each id"),
        (
            "quiver ingest store --slot events --follow files:inbox",
            "files of a folder, as they come",
        ),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--slot",
    "pairs",
    multiple=True,
    required=True,
    metavar="NAME=FILE",
    help="A slot and the file for it: Parquet, Arrow file or stream, NDJSON, CSV. Repeatable.",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(1, COUNT_MAX),
    default=_BATCH_ROWS,
    show_default=True,
    metavar="N",
    help="Rows of a bundle in each slot.",
)
@click.option("--by", metavar="COLUMN", help="One bundle for each value of this column, ascending.")
@click.option(
    "--null", "nulls", multiple=True, metavar="TEXT", help="What CSV has for no value. Repeatable."
)
@click.option(
    "--follow",
    "source",
    metavar="SOURCE",
    help="Read a source and go on: files:DIR, nats://HOST or quiver:DIR, ?OPTION=VALUE&... behind.",
)
@click.option("--once", is_flag=True, help="With --follow: end when there is nothing more.")
@click.option(
    "--idle",
    default="5s",
    show_default=True,
    metavar="TIME",
    help="With --once: how long nothing must have come.",
)
@click.option(
    "--messages",
    type=click.Choice(["json", "csv", "bytes"]),
    help="With --follow: take messages apart, each one a row; --columns says into what.",
)
@click.option(
    "--columns", metavar="COLUMNS", help="With --messages: 'id:int64 not null, text:string, ...'."
)
@click.option(
    "--carry", metavar="NAMES", help="With --messages: what a source tells beside: subject,time."
)
@click.option(
    "--dead-letters",
    metavar="SLOT",
    help="With --messages: where those go that cannot be taken; without it the first one ends it.",
)
@click.option(
    "--begin-anew",
    is_flag=True,
    help="With --follow: go on even if it was lost how far it was read; rows may come twice.",
)
@strict_option
@metrics_option
@config_options
def ingest(
    output: Output,
    *,
    folder: str,
    pairs: tuple[str, ...],
    batch_rows: int,
    by: str | None,
    nulls: tuple[str, ...],
    source: str | None,
    once: bool,
    idle: str,
    begin_anew: bool,
    messages: str | None,
    columns: str | None,
    carry: str | None,
    dead_letters: str | None,
    strict: bool,
    metrics: str | None,
) -> None:
    """Append files to a store, made if it is not there.

    A new store has the slots given, in their order. Without --by the i-th batches of all files make
    the i-th bundle; with it rows of all files that have the same value do, and a slot without such
    rows is absent. When this ends every bundle is in a segment and survives a power cut.

    With --follow --slot names one slot and no file. What was read is in the log with the rows, so
    that a later run goes on exactly behind the last durable bundle, however this one ended. SIGINT
    and SIGTERM end it well.

    CSV columns get their types from the first 16 MiB; an empty field is null unless it is quoted.
    FILE is a regular file, no pipe: it is looked at first and then read.
    """
    check_endpoint(metrics)
    if source is None:
        _refuse_alone(
            once=once,
            begin_anew=begin_anew,
            messages=messages,
            columns=columns,
            carry=carry,
            dead_letters=dead_letters,
        )
        bundles = _Wanted(pairs, batch_rows, by, nulls)
        _ingest_files(output, folder, bundles, strict=strict, metrics=metrics)
        return
    from quiver.cli.columns import parser_of
    from quiver.cli.feeding import feed

    if by is not None or nulls or batch_rows != _BATCH_ROWS:
        raise InputError(
            "--by, --null and --batch-rows are for files that are read once",
            hint="options of a source stand behind it: files:DIR?nulls=NA&batch_rows=1000",
        )
    feed(
        output,
        folder,
        source=source,
        slots=pairs,
        parser=parser_of(messages, columns, carry, dead_letters=dead_letters),
        dead_letters=dead_letters,
        once=once,
        idle=idle,
        begin_anew=begin_anew,
        strict=strict,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of which files, and how it becomes bundles."""

    pairs: tuple[str, ...]
    batch_rows: int
    by: str | None
    nulls: tuple[str, ...]


def _ingest_files(
    output: Output, folder: str, wanted: _Wanted, *, strict: bool, metrics: str | None
) -> None:
    from quiver.cli.align import align_by_key, align_by_position
    from quiver.cli.sources import open_source

    files = _parse(wanted.pairs).items()
    sources = [open_source(slot, path, wanted.nulls) for slot, path in files]
    bundles = align_by_position(sources, wanted.batch_rows)
    if wanted.by is not None:
        bundles = align_by_key(sources, wanted.by)
    # The first bundle is made before the store is: a file that cannot be read leaves no store.
    first = next(bundles, None)
    store, created = _open(output, folder, sources, strict=strict)
    tally = _Tally()
    try:
        with store, scraped(output, store, metrics):
            _report_recovery(output, store)
            _append(output, store, chain([] if first is None else [first], bundles), tally=tally)
            store.finalize()
            segments = store.metrics().get(("quiver.segment.finalized_segments", ""), 0)
    except BaseException:
        output.warn(f"quiver: before this stopped it appended {tally}; those stay in the store")
        raise
    _print(output, store, sources, tally=tally, created=created, segment_count=segments)


def _refuse_alone(**options: object) -> None:
    for name, value in options.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} needs --follow")


def _parse(pairs: Sequence[str]) -> dict[str, str]:
    """Read ``NAME=FILE`` pairs, each name once."""
    files: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise InputError(
                f"--slot {pair!r} is not NAME=FILE", hint="--slot events=events.parquet"
            )
        if name in files:
            raise InputError(
                f"--slot {name!r} is given twice", hint="ingest the second file by a second command"
            )
        files[name] = path
    return files


def _open(
    output: Output, folder: str, sources: Sequence[Source], *, strict: bool
) -> tuple[Store, bool]:
    """Open the store, or make it with the slots of the sources; says whether it was made."""
    from quiver.disk import LocalDisk
    from quiver.manifest import MANIFEST_NAME, StoreManifest

    names = [source.slot for source in sources]
    try:
        disk = LocalDisk(folder)
    except MissingError:
        return open_store(output, folder, strict=strict, slots=names), True
    try:
        if disk.stat(MANIFEST_NAME) is None:
            return open_store(output, folder, strict=strict, slots=names), True
        slots = StoreManifest.read(disk).slots
    finally:
        disk.close()
    for name in names:
        slots[name]  # InputError that lists the known ones.
    return open_store(output, folder, strict=strict), False


def _append(
    output: Output, store: Store, bundles: Iterable[dict[str, pa.Table]], *, tally: _Tally
) -> None:
    with output.progress("ingesting", None, unit="rows") as advance:
        for bundle in _nonempty(bundles):
            receipt = store.append(bundle, wait=False)
            advance(tally.add(receipt.wal_seq, bundle))
        store.flush()


def _nonempty(bundles: Iterable[dict[str, pa.Table]]) -> Iterator[dict[str, pa.Table]]:
    return (bundle for bundle in bundles if bundle)


def _report_recovery(output: Output, store: Store) -> None:
    """Tell about damage that opening the store met; it is in quarantine by now."""
    for error in store.recovery.damage:
        output.warn(f"quiver: set aside while opening: {error}")


def _print(
    output: Output,
    store: Store,
    sources: Sequence[Source],
    *,
    tally: _Tally,
    created: bool,
    segment_count: int,
) -> None:
    files: list[dict[str, Any]] = [
        {
            "slot": source.slot,
            "path": source.path,
            "format": source.format_name,
            "file_bytes": source.file_bytes,
            "row_count": tally.rows[source.slot],
        }
        for source in sources
    ]
    if output.as_json:
        output.document(
            {
                "path": store.path,
                "created": created,
                "bundle_count": tally.bundle_count,
                "row_count": tally.rows.total(),
                "wal_seq_first": tally.wal_seq_first,
                "wal_seq_last": tally.wal_seq_last,
                "segment_count": segment_count,
                "files": files,
            }
        )
        return
    rows = []
    for file in files:
        read = f"{count(file['row_count'], 'row')} from {file['path']} ({file['format']})"
        if not file["row_count"]:
            read = f"nothing: {file['path']} ({file['format']}) has no rows"
        rows.append((file["slot"], read))
    made = " (new)" if created else ""
    rows.append(("store", f"{tally}, {count(segment_count, 'segment')} in {store.path}{made}"))
    output.facts(rows)
