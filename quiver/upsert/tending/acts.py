"""One act done: several files of a bucket read, one written. Nothing names it yet.

It needs the store and a snapshot alone, so that any process can do it, and all can at once.
"""

from __future__ import annotations

from quiver.clock import Clock
from quiver.errors import InputError
from quiver.ship.objects import Bucket
from quiver.upsert.persist import FileRef, Snapshot, rows_as_of, write_base
from quiver.upsert.persist.reading import merged_runs
from quiver.upsert.persist.writing import write_merged
from quiver.upsert.tending.rules import Act

__all__ = ["perform"]


def perform(store: Bucket, snapshot: Snapshot, act: Act, *, clock: Clock | None = None) -> FileRef:
    """Write the file that is to stand for those of an act; ``snapshot`` is the one it was due in.

    Raises MissingError, DamageError, and what the store raises.
    """
    if act.kind == "fold":
        rows = rows_as_of(store, snapshot, act.bucket, epoch=act.epoch)
        return write_base(store, snapshot, rows, bucket=act.bucket, epoch=act.epoch, clock=clock)
    rows_of_all = merged_runs(store, snapshot, act.files)
    found = write_merged(store, snapshot, rows_of_all, bucket=act.bucket, clock=clock)
    if found.rows != act.rows:
        raise InputError(f"runs of bucket {act.bucket:,} do not have the rows that they should")
    return found
