"""``quiver queue dump``: a manifest as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.exits import DAMAGED, OK
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.queues.desk import store_options
from quiver.errors import DamageError, InputError, MissingError

if TYPE_CHECKING:
    from quiver.ship.queue import QueueView

__all__ = ["dump"]


@verb(
    "dump",
    examples=(
        ("quiver queue dump s3://bucket/queue", "all entries that wait, with their pages"),
        ("quiver queue dump s3://bucket/queue --limit 5", "the oldest five"),
        ("quiver queue dump manifest | jq '.entries[].location'", "of a file that was copied"),
    ),
)
@click.argument("place", metavar="URL|FILE")
@click.option("--limit", type=click.IntRange(0, COUNT_MAX), metavar="N", help="At most N entries.")
@store_options
def dump(output: Output, *, place: str, limit: int | None, options: tuple[str, ...]) -> int:
    """Show the manifest of a queue as JSON, its entries oldest first.

    A FILE is a manifest by itself; pages are looked for beside it. What is in front of damage is
    shown, then what is damaged; the exit code is 9 then. Changes nothing, and fences nobody.
    """
    from quiver.cli.queues.looking import read_file, read_queue

    if os.path.isfile(place):
        if options:
            raise InputError("--option has no meaning for a file")
        view = read_file(place)
    else:
        view = read_queue(place, options)
    fields = _fields(view, limit)
    output.document(fields)
    return OK if fields["damage"] is None else DAMAGED


def _fields(view: QueueView, limit: int | None) -> dict[str, Any]:
    from quiver.cli.queues.looking import entry_fields, mark_fields, page_fields

    footer = view.manifest.footer
    entries: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    damage: str | None = None
    try:
        for entry in view.entries(limit=limit, kept=True):
            entries.append(entry_fields(entry))  # noqa: PERF401 (what came before damage stays)
        marks = mark_fields(view.marks)
    except (DamageError, MissingError) as error:
        damage = str(error)
    return {
        "place": view.place,
        "version": footer.version,
        "epoch": footer.epoch,
        "next_sequence": footer.next_sequence,
        "entries": entries,
        "marks": marks,
        "floor": view.manifest.table.floor,
        "pages": [page_fields(page) for page in view.pages],
        "damage": damage,
    }
