"""``quiver chain ls``: partitions, or the blocks of some."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import click

from quiver.cli.chains.desk import UNREADABLE, chain_options, open_place, raise_told
from quiver.cli.output import Output, format_time, size
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.record import Partition, Record
    from quiver.chain.wire import WireOptions

__all__ = ["ls"]

_BLOCKS_MAX: Final = 10_000
_HIDDEN: Final = {"partit": (), "blocks": ("partition", "is_under_replicated")}


@verb(
    "ls",
    examples=(
        ("quiver chain ls --metadata /mnt/meta", "partitions"),
        ("quiver chain ls core_0 --metadata /mnt/meta --json | jq .state", "blocks, a line each"),
    ),
)
@click.argument("partitions", nargs=-1, metavar="[PARTITION]...")
@click.option(
    "--last", type=click.IntRange(1, _BLOCKS_MAX), help="Only so many blocks, the newest."
)
@chain_options
def ls(
    output: Output,
    *,
    partitions: tuple[str, ...],
    last: int | None,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """List partitions, or the blocks of some, oldest first.

    Says what the metadata say; no node is asked. The exit code is 9 if a record is damaged, and 5
    if it is of a newer Quiver: the other partitions are shown.
    """
    from quiver.chain.membership import list_partitions
    from quiver.chain.record import Partition
    from quiver.clock import SystemClock

    metadata = open_place(place, options, wire=wire)
    clock = SystemClock()
    if not partitions:
        rows, faults = [], []
        for name in list_partitions(metadata):
            try:
                rows.append(_partition_row(Partition(metadata, name, clock=clock)))
            except UNREADABLE as error:
                faults.append(error)
        _shown(output, "partitions", rows)
        raise_told(output, faults)
        return
    for name in partitions:
        opened = Partition(metadata, name, clock=clock)
        record = opened.read()
        blocks = list(_block_rows(name, record, opened.blocks_now(record)))
        _shown(output, f"blocks of {name}", blocks[-last:] if last else blocks)


def _partition_row(partition: Partition) -> dict[str, Any]:
    record = partition.read()
    sealed = sum(page.block_count for page in record.pages) + len(record.recent)
    if record.pages and record.pages[0].first < record.purged_below:  # A part of it is there yet.
        kept = takewhile(
            lambda block: block.number <= record.pages[0].last,
            partition.blocks_from(record, record.purged_below),
        )
        sealed -= record.pages[0].block_count - sum(1 for _ in kept)
    return {
        "partition": partition.name,
        "state": "sealing" if record.sealing_by else "open" if record.open else "closed",
        "epoch": record.epoch,
        "rf": record.rf,
        "block_count": sealed,
        "last_seq": record.last_seq,
        "writer": record.writer,
        "open_locations": list(record.open.locations) if record.open else [],
    }


def _block_rows(name: str, record: Record, blocks: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    for block in blocks:
        state = "abandoned" if block.is_abandoned else "finished" if block.digest else "sealed"
        yield {
            "partition": name,
            "number": block.number,
            "state": state,
            "start": format_time(block.start),
            "end": format_time(block.end),
            "bytes": block.length,
            "last_seq": block.last_seq,
            "rf": block.rf,
            "locations": list(block.locations),
            "is_under_replicated": len(block.locations) < block.rf,
        }
    if record.open is not None:
        yield {
            "partition": name,
            "number": record.open.number,
            "state": "sealing" if record.sealing_by else "open",
            "start": None,
            "end": None,
            "bytes": None,
            "last_seq": None,
            "rf": record.rf,
            "locations": list(record.open.locations),
            "is_under_replicated": len(record.open.locations) < record.rf,
        }


def _shown(output: Output, title: str, rows: list[dict[str, Any]]) -> None:
    if output.as_json:
        for row in rows:
            output.line(row)
        return
    columns = (
        [name for name in rows[0] if name not in ("partition", "is_under_replicated")]
        if rows
        else []
    )
    if rows and "block_count" in rows[0]:
        columns = ["partition", *columns]
    values = [[_cell(name, row[name]) for name in columns] for row in rows]
    output.table(title, [name.replace("_", " ") for name in columns], values, empty="none")


def _cell(name: str, value: Any) -> object:  # noqa: ANN401
    if name == "bytes":
        return size(value) if value is not None else ""
    if isinstance(value, list):
        return " > ".join(value)
    return "" if value is None else value
