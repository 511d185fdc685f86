"""``quiver tail``: the last rows of a slot, and those that come."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from quiver.cli.formats import refuse_terminal, write_rows
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.signals import check_reader, stopped_by_signals
from quiver.errors import InputError, MissingError

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.disk import Watch
    from quiver.scan import Scan

__all__ = ["tail"]

_FORMATS: Final = ("ndjson", "csv", "arrow")
_ROWS: Final = 10
_LOOK: Final = 0.5
"""Seconds between two looks whether anybody reads, or wants this to end."""
_RUN: Final = 100
"""Bundles that a subscriber takes at a time."""


@verb(
    "tail",
    examples=(
        ("quiver tail store --slot logs", "the last ten rows as JSON"),
        ("quiver tail store --slot logs -n 0 --follow", "those that come, until Ctrl-C"),
        ("quiver tail store --slot logs --follow --subscriber me", "each row once, acked"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.option("--slot", required=True, metavar="NAME", help="The slot to read.")
@click.option(
    "-n",
    "--rows",
    type=click.IntRange(0, COUNT_MAX),
    metavar="ROWS",
    help=f"How many of the last rows.  [default: {_ROWS}]",
)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--subscriber", metavar="NAME", help="Take bundles under this name, and ack them.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    help="Default: ndjson, which --json is too.",
)
def tail(
    output: Output,
    *,
    folder: str,
    slot: str,
    rows: int | None,
    follow: bool,
    subscriber: str | None,
    kind: str | None,
) -> None:
    """Write the last rows of a slot, and those that come.

    Rows come by core, segment and bundle, once their segment is finished. Nobody is registered and
    nothing is kept from deletion, unless --subscriber names who takes them: then it is all that
    this subscriber has not had, and a bundle is acked when its rows are written out.

    The columns of csv and arrow are those of the first rows; ndjson takes rows as they are.
    """
    if subscriber is not None and rows is not None:
        raise InputError("--subscriber: takes all rows that it has not had, and no -n")
    if output.as_json and kind not in (None, _FORMATS[0]):
        raise InputError(f"--json is not --format {kind}", hint="give one of them")
    kind = kind or _FORMATS[0]
    refuse_terminal(kind)
    ending = _Ending()
    with stopped_by_signals(ending.end) if follow else nullcontext():
        if subscriber is not None:
            batches = _take(folder, slot, subscriber, ending=ending if follow else None)
        else:
            count = _ROWS if rows is None else rows
            batches = _read(output, folder, slot, count=count, ending=ending if follow else None)
        with closing(batches):
            _write(kind, batches)


class _Ending:
    """Whether to go on."""

    def __init__(self) -> None:
        self.is_over = False
        self.watch: Watch | None = None

    def end(self) -> None:
        """Go on no more; called by a signal."""
        self.is_over = True
        if self.watch is not None:
            self.watch.wake()


def _read(
    output: Output, folder: str, slot: str, *, count: int, ending: _Ending | None
) -> Generator[pa.RecordBatch, None, None]:
    """Go through the last rows, and with an ending through those of each new segment."""
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.disk import Watch
    from quiver.engine.core import core_folder
    from quiver.scan import scan

    if ending is None:
        yield from _last(scan(folder, slot=slot), count, is_needed=True)
        return
    with closing(open_folder(folder)) as disk:
        rows: Scan | None = None
        seen: set[tuple[int, int]] = set()
        while not ending.is_over:
            cores = core_numbers(disk)
            folders = ["", *(f"{core_folder(core)}/segments" for core in cores)]
            with Watch(disk, folders) as watch:
                ending.watch = watch
                while not ending.is_over and cores == core_numbers(disk):
                    if rows is None:
                        rows = scan(folder, slot=slot)
                        yield from _last(rows, count, is_needed=False)
                    else:
                        rows = rows.refresh()
                        yield from _new(output, rows, seen)
                    seen = {(segment.core, segment.segment_seq) for segment in rows.segments}
                    while not (ending.is_over or watch.wait(_LOOK)):
                        check_reader()
                ending.watch = None


def _last(rows: Scan, count: int, *, is_needed: bool) -> Iterator[pa.RecordBatch]:
    """Go through the last ``count`` rows; MissingError if there must be some and never were."""
    if is_needed and all(part.schema is None for part in rows.parts):
        _ = rows.schema  # It says why.
    chosen = []
    for part in reversed(rows.parts):
        taken = min(count, part.row_count)
        count -= taken
        if taken:
            chosen.append((part.segment, part.row_count - taken))
    for segment, skipped in reversed(chosen):
        left = skipped
        for batch in rows.batches(segment):
            if left < batch.num_rows:
                yield batch.slice(left)
            left = max(left - batch.num_rows, 0)


def _new(output: Output, rows: Scan, seen: set[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    for segment in rows.segments:
        if (segment.core, segment.segment_seq) in seen:
            continue
        try:
            yield from rows.batches(segment)
        except MissingError:
            place = f"segment {segment.segment_seq} of core {segment.core}"
            output.warn(f"quiver: {place} was deleted before it was read")


def _take(
    folder: str, slot: str, name: str, *, ending: _Ending | None
) -> Generator[pa.RecordBatch, None, None]:
    """Go through what a subscriber has not had; it is acked when the next is asked for."""
    import quiver
    from quiver.cli.inspect import open_folder
    from quiver.consumer import check_whole
    from quiver.manifest import StoreManifest

    with closing(open_folder(folder)) as disk:
        StoreManifest.read(disk).slots[slot]  # InputError before anybody is registered.
    with quiver.subscribe(folder, name, slots=[slot]) as consumer:
        while ending is None or not ending.is_over:
            run = consumer.next_run(_RUN, timeout=0 if ending is None else _LOOK)
            if run is not None:
                with run:
                    for bundle in run:
                        if slot in bundle:
                            yield bundle[slot]
            elif ending is None:
                break
            check_reader()
        check_whole(consumer)


def _write(kind: str, batches: Iterator[pa.RecordBatch]) -> None:
    """Write batches as they come; nothing is held back when the next one is asked for."""
    first = next(batches, None)
    if first is None:
        return
    every = chain([first], batches)
    if kind == "ndjson":
        for batch in every:
            write_rows(kind, [batch], batch.schema)
    else:
        write_rows(kind, _alike(kind, every, first.schema), first.schema)


def _alike(
    kind: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Go through batches of one schema; InputError at the first of another."""
    from quiver.schemas import same_schema

    for batch in batches:
        if not same_schema(batch.schema, schema):
            raise InputError(
                f"{kind} cannot go on: the columns are others now: {', '.join(batch.schema.names)}",
                hint="--format ndjson takes rows as they are",
            )
        yield batch
        sys.stdout.buffer.flush()
