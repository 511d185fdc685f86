"""``View``: a collection as it was at one moment, read as Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from quiver.casts.picking import rows_where
from quiver.errors import InputError, MissingError
from quiver.ship.objects import Bucket, open_bucket
from quiver.upsert.persist import Collection, Snapshot, changes, rows_as_of
from quiver.upsert.rows import ERROR, KEY
from quiver.upsert.viewing.columns import Columns, Errors, Layout

__all__ = ["Moment", "View", "open_view"]

Moment = int | datetime
"""An epoch, or a time."""

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def open_view(
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> View:
    """Look at the collection in a folder, or at ``s3://BUCKET/PATH``, ``az://``, ``gs://``.

    ``options`` and ``environ`` say how a store is reached, as for ``quiver.ship.open_queue``.
    Raises MissingError if there is no collection.
    """
    return View(open_bucket(path, options=options, environ=environ))


class View:
    """One snapshot of a collection: whatever happens meanwhile, all that is read is of it.

    Its files stay until they are swept, some time after they were replaced; who reads longer than
    that gets a MissingError, and calls ``refresh``.
    """

    def __init__(self, store: Bucket) -> None:
        """Read the manifest as it is now; raises MissingError, DamageError, RemoteError."""
        self._collection = Collection.open(store)
        self.snapshot: Snapshot = self._collection.snapshot()

    @property
    def place(self) -> str:
        """Where it is."""
        return self._collection.place

    @property
    def latest(self) -> int:
        """The epoch of the current state."""
        return self.snapshot.latest

    @property
    def since(self) -> int:
        """The first epoch as of which it can be read."""
        return self.snapshot.since

    def refresh(self) -> None:
        """Look at the collection as it is now."""
        self.snapshot = self._collection.snapshot()

    def epoch(self, moment: Moment | None) -> int:
        """Give the epoch that a moment is: of a time the last one that was appended by then.

        Raises InputError if the collection cannot be read as of it.
        """
        if moment is None:
            return self.snapshot.latest
        if isinstance(moment, datetime):
            known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return self.snapshot.epoch_at((known - _START) // _MILLISECOND)
        return self.snapshot.check_epoch(moment)

    def _behind(self, moment: Moment) -> int:
        """Give the epoch that changes begin behind: before the first one there is nothing."""
        try:
            return self.epoch(moment)
        except InputError:
            if self.snapshot.since or not isinstance(moment, datetime):
                raise
            return 0

    def columns(
        self,
        *,
        columns: Sequence[str] = (),
        errors: Errors = "fail",
        layout: Layout = "flat",
        with_changes: bool = False,
    ) -> Columns:
        """Say which columns are to be read."""
        return Columns(self.snapshot.definition, errors, layout, with_changes, tuple(columns))

    def to_reader(
        self,
        *,
        as_of: Moment | None = None,
        columns: Sequence[str] = (),
        errors: Errors = "fail",
        layout: Layout = "flat",
    ) -> pa.RecordBatchReader:
        """Go through the rows as of an epoch or a time, one for each key, bucket by bucket.

        The columns are those of the key and the value, or with ``layout`` ``structs`` these two.
        Rows that are errors are refused, before any is given, unless ``errors`` is ``skip``, or
        ``only``, which gives them with their keys and ``_error``.
        """
        snapshot, epoch = self.snapshot, self.epoch(as_of)
        wanted = self.columns(columns=columns, errors=errors, layout=layout)
        store = self._collection.store

        def read(bucket: int) -> Iterator[pa.RecordBatch]:
            return rows_as_of(store, snapshot, bucket, epoch=epoch)

        return self._reader(wanted, read, f"as of epoch {epoch:,}")

    def to_table(
        self,
        *,
        as_of: Moment | None = None,
        columns: Sequence[str] = (),
        errors: Errors = "fail",
        layout: Layout = "flat",
    ) -> pa.Table:
        """Give the same as one table."""
        reader = self.to_reader(as_of=as_of, columns=columns, errors=errors, layout=layout)
        return reader.read_all()

    def changes(
        self,
        *,
        after: Moment | None = None,
        through: Moment | None = None,
        columns: Sequence[str] = (),
        errors: Errors = "fail",
        layout: Layout = "flat",
    ) -> pa.RecordBatchReader:
        """Go through the differences behind one epoch and up to another, bucket by bucket.

        Each row has ``_time``, its epoch, and ``_diff``: 1 for a row that came and -1 for one that
        went. Without ``after`` they begin behind the first epoch that can be read: with the state
        as of that they add up to every later one. Those of ``after`` itself are not among them;
        Spark's ``fromEpoch`` is the first that is, ``after=41`` is ``fromEpoch=42``.
        """
        snapshot = self.snapshot
        first = snapshot.since if after is None else self._behind(after)
        last = self.epoch(through)
        if last < first:
            raise InputError(f"changes end at epoch {last:,}, before they begin at {first:,}")
        wanted = self.columns(columns=columns, errors=errors, layout=layout, with_changes=True)
        store = self._collection.store

        def read(bucket: int) -> Iterator[pa.RecordBatch]:
            return changes(store, snapshot, bucket, after=first, through=last)

        return self._reader(wanted, read, f"behind epoch {first:,} up to {last:,}")

    def _reader(
        self, columns: Columns, read: Callable[[int], Iterator[pa.RecordBatch]], when: str
    ) -> pa.RecordBatchReader:
        schema = columns.schema
        if columns.errors == "fail":
            suspects = sorted({ref.bucket for ref in self.snapshot.files if ref.errors})
            _refuse_errors(chain.from_iterable(map(read, suspects)), f"{self.place} {when}")
        batches = chain.from_iterable(map(read, range(self.snapshot.buckets)))
        return pa.RecordBatchReader.from_batches(schema, _shown(columns, batches, schema))

    def __repr__(self) -> str:
        """Name it, and the epoch."""
        return f"View({self.place!r}, latest={self.latest})"


def _shown(
    columns: Columns, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in batches:
            errors: Any = batch.column(ERROR)
            if columns.errors == "only":
                if errors.null_count < len(errors):
                    yield columns.rows(rows_where(batch, errors.is_valid()), schema)
            elif errors.null_count == len(errors):
                yield columns.rows(batch, schema)
            elif errors.null_count:
                yield columns.rows(rows_where(batch, errors.is_null()), schema)
    except MissingError as error:
        error.hint = "it was swept while this was read; look again"
        raise


def _refuse_errors(batches: Iterable[pa.RecordBatch], where: str) -> None:
    """Raise InputError with the number of error rows and one of them, if there is any."""
    count, example = 0, ""
    for batch in batches:
        errors: Any = batch.column(ERROR)
        if errors.null_count == len(errors):
            continue
        count += len(errors) - errors.null_count
        if not example:
            row = pc.index(errors.is_valid(), pa.scalar(value=True)).as_py()
            key = batch.column(KEY)[row].as_py()
            example = f"{errors[row].as_py()!s:.200}; the key is {key!r:.200}"
    if count:
        what = "a row is an error" if count == 1 else f"{count:,} rows are errors"
        raise InputError(
            f"{where}: {what}: {example}",
            hint="errors=skip leaves them out, errors=only gives them alone",
        )
