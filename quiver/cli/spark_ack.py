"""``quiver spark-ack``: ack what a streaming query has committed, once it has ended."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.errors import LockedError, MissingError

if TYPE_CHECKING:
    from quiver.checkpoint import CheckpointFolder, Note

__all__ = ["spark_ack"]


@verb(
    "spark-ack",
    examples=(
        ("quiver spark-ack checkpoints/events", "after the query was stopped"),
        ("quiver spark-ack checkpoints/events --store /data/store", "the store was moved"),
    ),
)
@click.argument("folder", metavar="CHECKPOINT")
@click.option("--store", metavar="DIR", help="Where the store is now; acks only that one.")
@click.option("--subscriber", metavar="NAME", help="Only this one; else all that the query has.")
def spark_ack(output: Output, *, folder: str, store: str | None, subscriber: str | None) -> None:
    """Ack what a streaming query of Spark has committed.

    A query acks a batch when it plans the next one, so what it committed last is not acked when it
    is stopped. This does that from the query's checkpoint, after syncing what Spark wrote, and
    needs no Spark. It may be done any number of times, and is refused while the query runs.
    """
    import os

    from quiver.checkpoint import CheckpointFolder, read_notes

    with closing(CheckpointFolder(os.path.abspath(folder))) as checkpoint:
        notes = [n for n in read_notes(checkpoint) if subscriber in (None, n.subscriber)]
        if not notes:
            who = "no query" if subscriber is None else f"no query with subscriber {subscriber!r}"
            raise MissingError(
                f"{who} has read a store with this checkpoint: {checkpoint.path}",
                path=checkpoint.path,
                hint="give the query the options subscriber and checkpointLocation",
            )
        if store is not None:
            notes = _moved(notes, os.path.abspath(store))
        found = [_ack(checkpoint, note) for note in notes]
    if output.as_json:
        output.document({"path": checkpoint.path, "sources": found})
        return
    for source in found:
        if source["batch"] is None:
            text = "no batch is committed that was not acked"
        else:
            many = count(source["acked_bundle_count"], "bundle")
            text = f"{many} acked, up to batch {source['batch']}"
        output.text(f"{source['subscriber']} of {source['store_path']}: {text}")


def _moved(notes: list[Note], store: str) -> list[Note]:
    """Take the notes of a store that is in another folder now; all, to be refused, if none is."""
    from quiver.disk import LocalDisk
    from quiver.manifest import StoreManifest

    with closing(LocalDisk(store)) as disk:
        store_id = StoreManifest.read(disk).store_id
    ours = [note for note in notes if note.store_id == store_id]
    return [replace(note, store=store) for note in ours or notes]


def _ack(checkpoint: CheckpointFolder, note: Note) -> dict[str, Any]:
    from quiver.checkpoint import Acker, hold
    from quiver.clock import SystemClock

    disk = checkpoint.disk
    lock = None if disk is None else hold(disk, note)
    if lock is None:
        raise LockedError(
            f"the query with subscriber {note.subscriber!r} is running",
            hint="it acks by itself; stop it first, or let it go on",
        )
    try:
        with closing(Acker(note, checkpoint.path, start="earliest", clock=SystemClock())) as acker:
            acked = acker.reconcile()
            return {
                "subscriber": note.subscriber,
                "slot": note.slot,
                "store_path": note.store,
                "batch": acker.batch,
                "acked_bundle_count": acked,
            }
    finally:
        lock.release()
