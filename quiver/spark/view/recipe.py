"""What a task is told of a view, and how it reads its share: on another machine perhaps.

Files of a collection never change, and what is to be read of them is fixed when the share is made:
a task looks at no manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.casts.picking import rows_where
from quiver.errors import InputError, MissingError
from quiver.scan.rows import mask_of
from quiver.ship.objects import Bucket
from quiver.spark.batch import gather, split
from quiver.spark.schema import to_spark_all
from quiver.spark.view.plan import bytes_by_bucket, files_read
from quiver.spark.view.shares import Range, Share
from quiver.upsert.persist import Snapshot, changes, rows_as_of
from quiver.upsert.rows import DIFF, ERROR, KEY, TIME
from quiver.upsert.viewing.columns import Columns

__all__ = ["ViewRecipe"]

_NEARLY_ALL: Final = 0.75
"""Where so many rows pass, to leave out the others costs more than to hand them over."""
_SHOWN: Final = 200


@dataclass(frozen=True)
class ViewRecipe:
    """How to read one collection: ``stored`` are its own types, ``target`` those of Spark."""

    store: Bucket
    columns: Columns
    stored: pa.Schema
    target: pa.Schema
    where: Any = None
    """May leave rows out; Spark tries its filters again."""

    @property
    def place(self) -> str:
        """The collection, as messages name it."""
        return self.store.place

    def leaving_out(self, where: Any) -> ViewRecipe:  # noqa: ANN401
        """Give one that leaves out rows which do not pass, though perhaps not all of them."""
        return replace(self, where=where)

    def sizes(self, snapshot: Snapshot, span: Range) -> dict[int, int]:
        """Say about how many bytes are read of each bucket that can have rows."""
        return bytes_by_bucket(snapshot, span, only_errors=self.columns.errors == "only")

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Read one share in batches of at most 64 k rows.

        Raises MissingError if a file of the snapshot is gone, InputError if an error row is met
        and those are not asked for, RemoteError, DamageError.
        """
        finish = to_spark_all(self.target)
        return gather(self._rows(share), self.stored, lambda rows: finish(self._passing(rows)))

    def _rows(self, share: Share) -> Iterator[pa.RecordBatch]:
        for bucket in share.buckets:
            for batch in self._wanted(self._of_bucket(share, bucket)):
                yield self.columns.rows(batch, self.stored)

    def _of_bucket(self, share: Share, bucket: int) -> Iterator[pa.RecordBatch]:
        """Give what is asked of one bucket as differences, error rows among them."""
        span, snapshot = share.range, share.snapshot
        try:
            if span.state is not None:
                for batch in rows_as_of(self.store, snapshot, bucket, epoch=span.state):
                    yield from map(_Appear(span.state), split(batch))
            if span.has_changes:
                found = changes(
                    self.store, snapshot, bucket, after=span.first - 1, through=span.last
                )
                for batch in found:
                    yield from split(batch)
        except MissingError as error:
            raise MissingError(
                f"the snapshot has expired: {error.message}",
                path=error.path,
                hint="load the DataFrame again, or start the query again; files are kept for a "
                "grace after they were replaced, which is an option of who tends the collection",
            ) from error

    def check_errors(self, share: Share) -> None:
        """Raise InputError if a share has error rows, unless these are left out or asked for.

        What files say of their errors spares the reading of most; what an error that is gone by
        then leaves in them is read for nothing.
        """
        if self.columns.errors != "fail":
            return
        files = files_read(share.snapshot, share.range)
        suspects = {file.bucket for file in files if file.errors}
        count, example = 0, ""
        for bucket in share.buckets:
            if bucket not in suspects:
                continue
            for batch in self._of_bucket(share, bucket):
                found = len(batch) - batch.column(ERROR).null_count
                example = example or (_example(batch) if found else "")
                count += found
        if count:
            rows = "one error row" if count == 1 else f"{count:,} error rows, such as"
            raise self._refusal(f"{rows} {example}")

    def _wanted(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Leave out error rows, or all others."""
        wants = self.columns.errors
        for batch in found:
            errors: Any = batch.column(ERROR)
            good = errors.null_count
            if wants == "only":
                if good < len(errors):
                    yield batch if not good else rows_where(batch, errors.is_valid())
            elif good == len(errors):
                yield batch
            elif wants == "skip":
                yield rows_where(batch, errors.is_null())
            else:  # They were looked for when the share was made, and would pass for rows of nulls.
                raise self._refusal(f"an error row, {_example(batch)}")

    def _refusal(self, what: str) -> InputError:
        hint = "errors=only shows them, errors=skip reads the others"
        if not self.columns.with_changes:
            hint = f"a good value for such a key takes its error away; {hint}"
        return InputError(f"{self.place} has {what}", hint=hint)

    def _passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.where is None:
            return batch
        mask = mask_of(batch, self.where)
        if np.count_nonzero(mask) > len(mask) * _NEARLY_ALL:
            return batch
        kept: pa.RecordBatch = rows_where(batch, mask)
        return kept


class _Appear:
    """Makes differences of rows that are there as of an epoch: each appears at it."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        added: list[Any] = [
            pa.repeat(pa.scalar(self._epoch, pa.uint64()), rows),
            pa.repeat(pa.scalar(1, pa.int64()), rows),
        ]
        names = [*batch.schema.names, TIME, DIFF]
        return pa.RecordBatch.from_arrays([*batch.columns, *added], names=names)


def _example(batch: pa.RecordBatch) -> str:
    """Tell the first error row of a batch that has one."""
    rows: Any = rows_where(batch, batch.column(ERROR).is_valid())
    row: Any = rows.slice(0, 1).to_pylist()[0]
    key = json.dumps(row[KEY], default=str)
    return f"{key:.{_SHOWN}}: {row[ERROR]!r:.{_SHOWN}}"
