"""What a task is told, and how it reads its share: on another machine perhaps.

Nothing of the snapshot is in it but what this task reads.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from quiver.casts import conform
from quiver.casts.picking import rows_where
from quiver.disk import LocalDisk
from quiver.errors import MissingError
from quiver.events import Events
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.scan.plan import Piece
from quiver.scan.read import read_piece, read_placed
from quiver.scan.rows import mask_of
from quiver.schemas import same_schema_as
from quiver.spark.batch import gather, split
from quiver.spark.schema import to_spark_all

__all__ = ["METADATA", "Place", "Recipe", "expired", "open_store", "store_id_of", "with_place"]

_STORE_ID: Any = pa.field("_store_id", pa.string())
METADATA: Final = pa.schema(
    [
        pa.field("_core", pa.int32()),
        pa.field("_segment_seq", pa.int64()),
        pa.field("_bundle_index", pa.int64()),
        pa.field("_ingestion_time", pa.timestamp("ns", "UTC")),
        pa.field("_row_index", pa.int64()),
        _STORE_ID,
    ]
)
"""The columns of ``includeMetadata``: where a row lies, and when its bundle was appended."""

_NEARLY_ALL: Final = 0.75
"""Where so many rows pass, to leave out the others costs more than to hand them over."""
_ELSEWHERE: Final = (
    "each executor reads the files itself: mount the store under this path on all machines, or "
    "ship it to object storage that all of them see, and read it there"
)


@dataclass(frozen=True)
class Recipe:
    """How to read pieces of one store: ``stored`` are its own types, ``target`` those of Spark.

    ``columns`` are what is to be read; None is all. ``where`` may leave rows out.
    """

    path: str
    store_id: str | None
    stored: pa.Schema
    target: pa.Schema
    columns: tuple[str, ...] | None = None
    where: Any = None
    metadata: bool = False
    skip_lost: bool = False

    def read(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Read pieces, in batches of at most 64 k rows, in order of segment and bundle.

        Raises MissingError if the store is not here, or a segment is gone.
        """
        with closing(open_store(self.path, self.store_id)) as disk:
            finish = to_spark_all(self.target)
            if self.where is None:
                yield from gather(self._rows(disk, pieces), self.stored, finish)
            else:
                yield from gather(
                    self._rows(disk, pieces), self.stored, lambda rows: finish(self._passing(rows))
                )

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that no file has."""
        return tuple(METADATA.names) if self.metadata else ()

    def leaving_out(self, where: Any) -> Recipe:  # noqa: ANN401
        """Give one that leaves out rows which do not pass, though perhaps not all of them."""
        return replace(self, where=where)

    def _rows(self, disk: LocalDisk, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        is_stored = same_schema_as(self.stored)
        for piece in pieces:
            try:
                for batch in self._chunks(disk, piece):
                    is_ready = is_stored(batch.schema)
                    for part in split(batch):
                        yield part if is_ready else conform(part, self.stored)
            except MissingError as error:
                if not self.skip_lost:
                    raise expired(error) from error
                segment = piece.part.segment
                events = Events(store=self.path, core=segment.core)
                events.warning("spark.segment_lost", segment_seq=segment.segment_seq)
                events.tell()

    def _chunks(self, disk: LocalDisk, piece: Piece) -> Iterator[pa.RecordBatch]:
        if self.metadata:
            core, segment_seq = piece.part.segment.core, piece.part.segment.segment_seq
            for index, time, batch in read_placed(disk, piece, columns=self.columns):
                yield with_place(batch, Place(core, segment_seq, index, time, self.store_id))
            return
        for some in read_piece(disk, piece, columns=self.columns, sound=set()):
            yield from some.to_batches() if isinstance(some, pa.Table) else some

    def _passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = mask_of(batch, self.where)
        if np.count_nonzero(mask) > len(mask) * _NEARLY_ALL:
            return batch  # Spark tries the filter too.
        kept: pa.RecordBatch = rows_where(batch, mask)
        return kept


def open_store(path: str, store_id: str | None) -> LocalDisk:
    """Open the store of a task; MissingError names the host if it is not here, or another one."""
    host = socket.gethostname()
    try:
        disk = LocalDisk(path)
    except MissingError as error:
        raise MissingError(
            f"the store {path} cannot be seen from {host}", path=path, hint=_ELSEWHERE
        ) from error
    try:
        found = store_id_of(disk)
    except BaseException:
        disk.close()
        raise
    if found != store_id:
        disk.close()
        raise MissingError(
            f"what lies in {path} on {host} is not the store that the query was planned with "
            f"(that one is {store_id}, here is {found or 'none'})",
            path=path,
            hint=_ELSEWHERE,
        )
    return disk


def expired(error: MissingError) -> MissingError:
    """Say of a segment that is gone what it means for the DataFrame."""
    return MissingError(
        f"the snapshot has expired: {error.message}",
        path=error.path,
        hint="load the DataFrame again; a subscriber that has not acked keeps segments from being "
        "deleted; with failOnDataLoss=false what is left is read",
    )


def store_id_of(disk: LocalDisk) -> str | None:
    """Read the id of a store; None for the folder of another implementation, which has none."""
    if disk.stat(MANIFEST_NAME) is None:
        return None
    return StoreManifest.read(disk).store_id


class Place(NamedTuple):
    """Where a bundle lies. No slot of it has more than one batch."""

    core: int
    segment_seq: int
    bundle_index: int
    ingestion_ns: int | None
    store_id: str | None


def with_place(batch: pa.RecordBatch, place: Place, first_row: int = 0) -> pa.RecordBatch:
    """Add the columns of ``METADATA`` to rows of a bundle, from ``first_row`` on."""
    rows = batch.num_rows
    added = [
        pa.repeat(pa.scalar(value, pa.int64()).cast(field.type), rows)
        for value, field in zip(place[:4], METADATA, strict=False)
    ]
    added.append(pa.array(np.arange(first_row, first_row + rows)))
    added.append(pa.repeat(pa.scalar(place.store_id, pa.string()), rows))
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *added], schema=pa.schema([*batch.schema, *METADATA])
    )
