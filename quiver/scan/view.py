"""``Scan``: a lazy, re-usable Arrow view of one slot over a store's finalized segments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from quiver.disk import LocalDisk
from quiver.errors import InputError, MissingError
from quiver.manifest import StoreManifest
from quiver.promote import union_schema
from quiver.scan.conform import conform
from quiver.scan.snapshot import SegmentRef, SlotPart, list_segments, open_segment, read_part

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Scan", "scan"]


class Scan:
    """All rows of one slot in a snapshot of a store: by core, then segment, then bundle.

    The snapshot is the list of segments when the scan was made; segments are immutable, so every
    reading gives the same rows, and ``refresh`` gives a scan of what is there now. No lock is
    taken and nothing is kept from deletion: a segment that the store has deleted since raises
    MissingError. Rows of bundles that are not finalized yet are not seen.

    Batches are views of the mapped files where no cast is due. A scan holds no file open, may be
    pickled, and may be used from several threads. Any library that speaks Arrow takes it as it is:
    ``pa.table(scan)``, ``pl.DataFrame(scan)``, DuckDB's ``FROM scan``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        slot: str,
        columns: Sequence[str] | None = None,
    ) -> None:
        """List the segments; raises MissingError if there is no store, InputError for the slot."""
        if not isinstance(slot, str):
            raise InputError(f"slot: {slot!r} is no name", hint='say slot="name"')
        self.slot = slot
        self.columns = None if columns is None else _checked(columns)
        disk = LocalDisk(_checked_path(path))
        try:
            self.path = disk.root
            self._slot_id = StoreManifest.read(disk).slots[slot].slot_id
            self.segments: tuple[SegmentRef, ...] = list_segments(disk)
        finally:
            disk.close()
        self._parts: tuple[SlotPart, ...] | None = None

    def refresh(self) -> Scan:
        """Give a scan of the same slot and columns over the segments that are there now."""
        return type(self)(self.path, slot=self.slot, columns=self.columns)

    @property
    def parts(self) -> tuple[SlotPart, ...]:
        """What each segment holds of the slot; read from all their directories, then kept."""
        if self._parts is None:
            disk = LocalDisk(self.path)
            try:
                self._parts = tuple(
                    read_part(disk, segment, self._slot_id, columns=self.columns)
                    for segment in self.segments
                )
            finally:
                disk.close()
        return self._parts

    @property
    def schema(self) -> pa.Schema:
        """The representative schema: all columns seen in any segment, each of its widest type.

        Raises MissingError if no segment holds the slot, InputError if a column has no common
        type or is not there.
        """
        schemas = [part.schema for part in self.parts if part.schema is not None]
        if not schemas:
            raise MissingError(
                f"no finalized segment of {self.path} holds slot {self.slot!r} yet",
                path=self.path,
                hint="rows are seen once their segment is a file: call finalize(), or wait; "
                "or every subscriber has acked them already",
            )
        union = union_schema(schemas)
        if self.columns is None:
            return union
        unknown = [name for name in self.columns if name not in union.names]
        if unknown:
            known = dict.fromkeys(name for part in self.parts for name in part.column_names)
            raise InputError(
                f"slot {self.slot!r} has no column {unknown[0]!r}",
                hint=f"its columns are: {', '.join(known)}",
            )
        repeated = [name for name in self.columns if union.names.count(name) > 1]
        if repeated:
            raise InputError(f"slot {self.slot!r} has column {repeated[0]!r} twice")
        metadata: Any = union.metadata
        return pa.schema([union.field(name) for name in self.columns], metadata)

    def count_rows(self) -> int:
        """Count the rows from the segments' directories, without reading any."""
        return sum(part.row_count for part in self.parts)

    def batches(
        self, segment: SegmentRef, *, first: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read the slot in bundles ``[first, stop)`` of one segment, each as it was written."""
        disk = LocalDisk(self.path)
        try:
            with open_segment(disk, segment) as reader:
                end = reader.bundle_count if stop is None else min(stop, reader.bundle_count)
                for index in range(first, end):
                    batch = reader.bundle(index, slots={self._slot_id}).get(self._slot_id)
                    if batch is not None:
                        yield batch
        finally:
            disk.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """Give a fresh stream of all rows, one batch for each bundle that has the slot."""
        schema = self.schema
        return pa.RecordBatchReader.from_batches(schema, self._conformed(schema))

    def to_table(self) -> pa.Table:
        """Read all rows into a Table."""
        return self.to_reader().read_all()

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into a polars DataFrame (needs polars)."""
        import polars as pl

        return pl.DataFrame(self)

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Read all rows into a pandas DataFrame (needs pandas)."""
        return self.to_table().to_pandas()

    def __arrow_c_schema__(self) -> object:
        """Export the schema by the Arrow PyCapsule interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export a fresh stream of all rows by the Arrow PyCapsule interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Say what is read, and from how many segments."""
        columns = "" if self.columns is None else f", columns={list(self.columns)}"
        count = len(self.segments)
        return f"Scan({self.path!r}, slot={self.slot!r}{columns}, {count} segments)"

    def _conformed(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            if part.schema is not None:
                for batch in self.batches(part.segment):
                    yield conform(batch, schema)


def scan(path: str | os.PathLike[str], *, slot: str, columns: Sequence[str] | None = None) -> Scan:
    """Look at one slot of the store in ``path``, over the segments that are finalized now.

    Opens no writer and takes no lock, so any number of processes may scan a store that is being
    written. ``columns`` leaves the other ones out and gives their order.
    """
    return Scan(path, slot=slot, columns=columns)


def _checked_path(path: object) -> str:
    """Take what names a folder; everything else would come back as an error of Python's own."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text:
        raise InputError(f"path: {path!r} names no folder", hint="a str or a pathlib.Path")
    if "\0" in text:
        raise InputError(f"path: {path!r} has a null character in it")
    return text


def _checked(columns: object) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise InputError(f"columns: {columns!r} is one string", hint=f'say columns=["{columns}"]')
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"columns: {name!r} is no name", hint='say columns=["name", ...]')
    if len(set(names)) < len(names):
        raise InputError(f"columns: one is named twice in {', '.join(names)}")
    return names
