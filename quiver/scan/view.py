"""``Scan``: a lazy, re-usable Arrow view of one slot of a store."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from quiver.casts.conform import conform, conform_table
from quiver.disk import LocalDisk
from quiver.errors import InputError, MissingError
from quiver.promote import union_schema
from quiver.scan.expressions import mentioned
from quiver.scan.open_bundle import OpenBundle, open_batches
from quiver.scan.plan import Extent, Filter, Piece, extent_of, open_extent, plan_part
from quiver.scan.query import Query, checked_path
from quiver.scan.read import Chunks, Sound, read_piece
from quiver.scan.rows import check_fits, passing
from quiver.scan.snapshot import SegmentRef, SlotPart, open_segment, read_parts
from quiver.scan.source import find_source
from quiver.scan.times import event_filter
from quiver.schemas import same_schema_as

if TYPE_CHECKING:
    import polars as pl

    from quiver.scan.dataset import SlotDataset

__all__ = ["Scan"]


class Scan:
    """All rows of one slot in a snapshot of a store: by core, then segment, then bundle.

    The snapshot is the list of segments when the scan was made; segments are immutable, so every
    reading gives the same rows, and ``refresh`` gives a scan of what is there now. No lock is
    taken and nothing is kept from deletion: a segment that the store has deleted since raises
    MissingError. Rows of bundles that are not finalized yet are seen only with ``include_open``,
    behind the segments of their core.

    Batches are views of the mapped files where no cast is due. A scan holds no file open, may be
    pickled, and may be used from several threads. Any library that speaks Arrow takes it as it is:
    ``pa.table(scan)``, ``pl.DataFrame(scan)``, DuckDB's ``FROM scan``. Those read all of it;
    ``dataset()`` lets an engine leave out what a query does not need.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:  # noqa: ANN401
        """Take a snapshot; the options are those of ``quiver.scan``.

        Raises MissingError if there is no store, InputError for an option that makes no sense.
        """
        query = Query.of(**options)
        with closing(LocalDisk(checked_path(path))) as disk:
            self.path = disk.root
            found = find_source(disk, query)
        self._slot = found.slot
        self.segments: tuple[SegmentRef, ...] = found.segments
        self.open_bundles: tuple[OpenBundle, ...] = found.open_bundles
        event_filter(query.event_time, self._slot, None)  # Only to hear now that there is none.
        self._query = query
        self._sound: Sound = set()
        self._parts: tuple[SlotPart, ...] | None = None
        self._by_segment: dict[SegmentRef, SlotPart] | None = None
        self._plan: tuple[Piece, ...] | None = None
        self._read_as: pa.Schema | None = None
        self._pinned: pa.Schema | None = None

    @property
    def slot(self) -> str | int:
        """The name of the slot, or its id in a folder of the Rust Quiver."""
        return self._query.slot

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns that were asked for, in this order; None is all."""
        return self._query.columns

    def refresh(self) -> Scan:
        """Give a scan of the same rows and columns over what is there now."""
        query = self._query
        options = {name: getattr(query, name) for name in query.__slots__}
        return type(self)(self.path, **options)

    def select(
        self,
        columns: Sequence[str] | None = None,
        where: Any = None,  # noqa: ANN401
    ) -> Scan:
        """Give a scan of fewer columns and rows of the same snapshot; None leaves it as it is."""
        return self._with(_query=self._query.narrowed(columns, where))

    def only(self, segment: SegmentRef | None) -> Scan:
        """Give the rows of one segment, or of the log alone, under the schema of this scan."""
        if segment is None:
            return self._with(segments=(), _parts=(), _pinned=self._read_schema)
        if self._by_segment is None:
            self._by_segment = {part.segment: part for part in self.parts}
        part = self._by_segment.get(segment)
        return self._with(
            segments=(segment,),
            open_bundles=(),
            _parts=() if part is None else (part,),
            _pinned=self._read_schema,
        )

    def among(self, segments: Iterable[SegmentRef]) -> Scan:
        """Give a scan of fewer segments of the same snapshot, and of nothing of the log."""
        return self._with(segments=tuple(segments), open_bundles=())

    def under(self, schema: pa.Schema) -> Scan:
        """Give a scan of the same rows under this schema, as far as they fit it."""
        return self._with(_parts=self.parts, _pinned=schema)

    def _with(self, **changes: Any) -> Scan:  # noqa: ANN401
        """Make a scan of the same snapshot that differs in this."""
        other = copy.copy(self)
        forgotten = dict.fromkeys(("_parts", "_by_segment", "_plan", "_read_as"))
        vars(other).update(forgotten | changes)
        return other

    @property
    def parts(self) -> tuple[SlotPart, ...]:
        """What each segment holds of the slot; read from all their directories, then kept."""
        if self._parts is None:
            with closing(LocalDisk(self.path)) as disk:
                self._parts = tuple(
                    read_parts(disk, self.segments, self._slot.slot_id, needed=self._needs)
                )
        return self._parts

    @property
    def schema(self) -> pa.Schema:
        """The representative schema: all columns seen in any segment, each of its widest type.

        Raises MissingError if no segment holds the slot, InputError if a column has no common
        type or is not there.
        """
        union = self._read_schema
        if self.columns is None:
            return union
        metadata: Any = union.metadata
        return pa.schema([union.field(name) for name in self.columns], metadata)

    @property
    def _read_schema(self) -> pa.Schema:
        """The schema of what is read: the columns asked for, and those that a filter needs."""
        if self._read_as is None:
            self._read_as = self._union()
        return self._read_as

    def _union(self) -> pa.Schema:
        if self._pinned is not None:
            metadata: Any = self._pinned.metadata
            schemas = [pa.schema([f for f in self._pinned if self._needs(f.name)], metadata)]
            return self._checked_union(union_schema(schemas))
        once = {id(part.schema): part.schema for part in self.parts}  # Most of them share one.
        schemas = [schema for schema in once.values() if schema is not None]
        schemas += self._open_schemas()
        if not schemas:
            raise MissingError(
                f"no finalized segment of {self.path} holds slot {self.slot!r} yet",
                path=self.path,
                hint="rows are seen once their segment is a file: call finalize(), or wait, or say "
                "include_open=True; or every subscriber has acked them already",
            )
        return self._checked_union(union_schema(schemas))

    def _checked_union(self, union: pa.Schema) -> pa.Schema:
        for name in self.columns or ():
            if name not in union.names:
                known = dict.fromkeys(name for part in self.parts for name in part.column_names)
                raise InputError(
                    f"slot {self.slot!r} has no column {name!r}",
                    hint=f"its columns are: {', '.join(known or union.names)}",
                )
            if union.names.count(name) > 1:
                raise InputError(f"slot {self.slot!r} has column {name!r} twice")
        return union

    def _open_schemas(self) -> list[pa.Schema]:
        """Give the schema of open bundles, once for each fingerprint."""
        different = {
            slot.fingerprint: bundle
            for bundle in self.open_bundles
            for slot in bundle.slots
            if slot.slot_id == self._slot.slot_id
        }
        schemas: list[pa.Schema] = []
        if not different:
            return schemas
        with closing(LocalDisk(self.path)) as disk:
            for batch in open_batches(disk, different.values(), self._slot.slot_id):
                metadata: Any = batch.schema.metadata
                kept = [field for field in batch.schema if self._needs(field.name)]
                schemas.append(pa.schema(kept, metadata))
        return schemas

    def _needs(self, name: str) -> bool:
        """Whether a column is asked for, or a filter may need it."""
        query = self._query
        if query.columns is None or name in query.columns:
            return True
        if query.event_time != (None, None) and name == self._slot.event_time:
            return True
        return query.where is not None and name in mentioned(query.where, [name])

    @property
    def _filter(self) -> Filter:
        """All that rows must satisfy."""
        query, schema = self._query, self._read_schema
        if query.where is not None:
            check_fits(query.where, schema)
        where = event_filter(query.event_time, self._slot, schema)
        if query.where is not None:
            where = query.where if where is None else where & query.where
        names = () if where is None else tuple(mentioned(where, schema.names))
        return Filter(where, names, query.ingestion_time)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """What is to be read, segment by segment; found out once."""
        if self._plan is None:
            wanted, schema = self._filter, self._read_schema
            with closing(LocalDisk(self.path)) as disk:
                found = [plan_part(disk, part, wanted, schema=schema) for part in self.parts]
            self._plan = tuple(piece for piece in found if piece is not None)
        return self._plan

    @property
    def extent(self) -> Extent:
        """How much there is of the slot, whatever the filters say; an open bundle is a chunk."""
        whole = sum((extent_of(part) for part in self.parts), Extent())
        return whole + open_extent(self.open_bundles, self._slot.slot_id)

    @property
    def skipped(self) -> Extent:
        """How much of that is never read, since no row of it can pass the filters."""
        read = sum((piece.extent for piece in self.pieces), Extent())
        return self.extent - read - open_extent(self._timely_bundles, self._slot.slot_id)

    @property
    def _timely_bundles(self) -> tuple[OpenBundle, ...]:
        wanted = Filter(ingestion=self._query.ingestion_time)
        return tuple(one for one in self.open_bundles if wanted.is_timely(one.ingestion_ns))

    def count_rows(self) -> int:
        """Count the rows; from the segments' directories alone, unless a filter must be tried."""
        if not self.open_bundles and all(part.schema is None for part in self.parts):
            return 0
        if self._filter.where is None:
            return (self.extent - self.skipped).rows
        return sum(table.num_rows for table in self.select(columns=[]).passing_tables())

    def batches(
        self, segment: SegmentRef, *, first: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read the slot in bundles ``[first, stop)`` of one segment, each as it was written.

        Filters are not applied.
        """
        disk = LocalDisk(self.path)
        try:
            with open_segment(disk, segment) as reader:
                end = reader.bundle_count if stop is None else min(stop, reader.bundle_count)
                for index in range(first, end):
                    yield from reader.bundle(index, slots={self._slot.slot_id}).values()
        finally:
            disk.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """Give a fresh stream of all rows, one batch for each bundle that has the slot.

        With a filter batches may be joined or left out.
        """
        schema = self.schema
        if self._filter.where is None:
            return pa.RecordBatchReader.from_batches(schema, self._batches(schema))
        kept = (batch for table in self.passing_tables() for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(schema, kept)

    def to_table(self) -> pa.Table:
        """Read all rows into a Table, whose chunks are views of the files where no cast is due."""
        schema = self.schema
        if not len(schema):
            return self.to_reader().read_all()
        is_whole = self._filter.where is None
        tables = list(self._tables(schema) if is_whole else self.passing_tables())
        if len(tables) == 1:  # To put one together with nothing would copy the list of its chunks.
            return tables[0]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into a polars DataFrame (needs polars)."""
        import polars as pl

        return pl.DataFrame(self)

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Read all rows into a pandas DataFrame (needs pandas)."""
        return self.to_table().to_pandas()

    def dataset(self) -> SlotDataset:
        """Give the rows as a ``pyarrow.dataset.Dataset``: engines hand down what they need of it.

        An engine that is given the scan itself reads all columns and rows of it as a stream.
        """
        from quiver.scan.dataset import SlotDataset

        return SlotDataset(self)

    def to_duckdb(self, connection: Any = None, *, name: str | None = None) -> Any:  # noqa: ANN401
        """Give a DuckDB relation that reads what is needed when it is run (needs duckdb).

        It belongs to ``connection``, or to DuckDB's default one. With ``name`` the rows are also
        a view there, for SQL. It may be run any number of times.
        """
        import duckdb

        owner = duckdb if connection is None else connection
        if name is None:
            return owner.from_arrow(self.dataset())
        owner.register(name, self.dataset())
        return owner.view(name)

    def to_datafusion(self, context: Any = None, *, name: str | None = None) -> Any:  # noqa: ANN401
        """Give a DataFusion DataFrame that reads what is needed (needs datafusion).

        The rows become a table of ``context``, or of a new one, under ``name`` or the slot's name;
        segments are its partitions.
        """
        from datafusion import SessionContext

        owner = SessionContext() if context is None else context
        table = '"' + str(name or self.slot).replace('"', '""') + '"'
        owner.register_dataset(table, self.dataset())
        return owner.table(table)

    def __arrow_c_schema__(self) -> object:
        """Export the schema by the Arrow PyCapsule interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export a fresh stream of all rows by the Arrow PyCapsule interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Say what is read, and from how many segments."""
        query = self._query
        shown = [] if query.columns is None else [f"columns={list(query.columns)}"]
        if query.where is not None:
            shown.append(f"where={query.where}")
        shown.append(f"{len(self.segments)} segments")
        if query.include_open:
            shown.append(f"{len(self.open_bundles)} open bundles")
        return f"Scan({self.path!r}, slot={self.slot!r}, {', '.join(shown)})"

    def passing_tables(self) -> Iterator[pa.Table]:
        """Read what may pass the filter, segment by segment, and give the rows that do."""
        where, read_as, schema = self._filter.where, self._read_schema, self.schema
        places = [read_as.get_field_index(name) for name in schema.names]
        if self.columns is None:
            places = list(range(len(read_as)))
        for table in self._tables(read_as):
            kept = passing(table, where)
            if kept.num_rows:
                yield kept.select(places)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        is_same = same_schema_as(schema)
        for data in self._read(schema, apart=True):
            batches = data.to_batches() if isinstance(data, pa.Table) else data
            if is_same(batches[0].schema):
                yield from batches
            else:
                yield from (conform(batch, schema) for batch in batches)

    def _tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        is_same = same_schema_as(schema)
        for data in self._read(schema):
            if isinstance(data, pa.Table) and is_same(data.schema):
                yield data
                continue
            each = (data,) if isinstance(data, pa.Table) else data
            yield from (conform_table(one, schema) for one in each)

    def _read(self, schema: pa.Schema, *, apart: bool = False) -> Iterator[Chunks]:
        columns = None if self.columns is None else schema.names
        late, slot_id = list(self._timely_bundles), self._slot.slot_id
        options: dict[str, Any] = {"columns": columns, "sound": self._sound, "apart": apart}
        with closing(LocalDisk(self.path)) as disk:
            for piece in self.pieces:
                while late and late[0].core < piece.part.segment.core:
                    yield from ((one,) for one in open_batches(disk, [late.pop(0)], slot_id))
                yield from read_piece(disk, piece, verify=self._query.verify, **options)
            yield from ((one,) for one in open_batches(disk, late, slot_id))
