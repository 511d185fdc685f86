"""A scan as a ``pyarrow.dataset.Dataset``, for engines that hand down columns and filters.

::

    engine --- scanner(columns, filter) --> SlotDataset ---- select(columns, where) --> Scan
           --- get_fragments(filter) -----> SlotFragment, one for each segment

DuckDB, polars and DataFusion know nothing but pyarrow's classes, so these are subclasses of them.
They have no C++ object behind them: each method that would look for it is replaced here, and
``tests/scan/test_dataset.py`` finds the one that a newer pyarrow adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from quiver.casts.picking import has_stacked_lists, levelled, rows_at
from quiver.errors import InputError, QuiverError
from quiver.scan.ending import until_the_end
from quiver.scan.expressions import columns_of, text_of

if TYPE_CHECKING:
    from quiver.scan.snapshot import SlotPart
    from quiver.scan.view import Scan

__all__ = ["SlotDataset", "SlotFragment"]

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
Filter = pc.Expression | None

_IN_MEMORY = "pyarrow.dataset.dataset(ds.to_table()) can do it, in memory"


class _Source:
    """A scan, what was last selected of it, and the errors that were met.

    A dataset and its fragments share one: engines ask each fragment for the same, and a selection
    of many segments is not free.
    """

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self.failures: list[QuiverError] = []
        self._last: tuple[list[str] | None, Filter, Scan] | None = None

    def select(self, columns: list[str] | None, where: Filter) -> Scan:
        if columns is None and where is None:
            return self.scan
        if self._last is not None:
            known, filter_, narrow = self._last
            if known == columns and _equal(filter_, where) and _same_text(filter_, where):
                return narrow
        narrow = self.scan.select(columns=columns, where=where)
        self._last = columns, where, narrow
        return narrow


class _Readable:
    """What a dataset and a fragment have in common: reading a scan through a Scanner.

    A Scanner may be used once; each call makes another. Nothing is read before a Scanner is.
    """

    _source: _Source

    def _select(self, columns: list[str] | None, where: Filter) -> Scan:
        return self._source.select(columns, where)

    def _scanner(self, columns: Columns, filter: Filter, options: Any) -> pads.Scanner:
        schema = self._source.scan.schema
        if filter is not None:
            columns_of(filter, schema)  # Only to hear now if it does not fit.
        narrow = self._select(_needed(columns, schema), filter)
        chosen: Any = dict(columns) if isinstance(columns, Mapping) else columns
        return pads.Scanner.from_batches(
            self._batches(narrow),
            schema=narrow.schema,
            columns=None if chosen is None else chosen or [],  # An empty mapping is no projection.
            **options,
        )

    def _batches(self, narrow: Scan) -> Iterator[pa.RecordBatch]:
        """Read a scan; engines tell of an error by its text alone, so it is kept as well."""
        try:
            yield from until_the_end(narrow.to_reader())
        except QuiverError as error:
            self._source.failures.append(error)
            raise

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pa.Table:
        """Read the first rows that pass ``filter``, and little more."""
        return self._scanner(columns, filter, options).head(num_rows)

    def take(
        self,
        indices: Any,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pa.Table:
        """Read the rows at these places among those that pass ``filter``."""
        places = indices if isinstance(indices, pa.Array) else pa.array(indices, pa.int64())
        scanner = self._scanner(columns, filter, options)
        if has_stacked_lists(scanner.projected_schema):
            return rows_at(scanner.to_table(), places)
        return scanner.take(places)

    def count_rows(self, filter: Filter = None, **_: Any) -> int:
        """Count the rows that pass ``filter``; without one no row is read."""
        return self._select(None if filter is None else [], filter).count_rows()

    @property
    def partition_expression(self) -> pc.Expression:
        """What is known of all rows: nothing."""
        return pc.scalar(True)


class SlotDataset(_Readable, pads.Dataset):
    """The rows of a ``Scan`` for whoever takes a ``pyarrow.dataset.Dataset``.

    Only the columns that a caller names, or filters by, are read, and what cannot pass its filter
    is passed over by statistics. It may be used any number of times, from several threads, and
    pickled; like its scan it is pinned to a list of segments and keeps no file open.

    ``failures`` are the errors of Quiver that were raised while it was read, oldest first: engines
    raise one of their own that only quotes it.
    """

    def __init__(self, scan: Scan) -> None:
        self._source = _Source(scan)

    @property
    def schema(self) -> pa.Schema:
        """The representative schema of the scan."""
        return self._source.scan.schema

    @property
    def failures(self) -> tuple[QuiverError, ...]:
        """Errors of Quiver that were raised while this dataset was read."""
        return tuple(self._source.failures)

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pads.Scanner:
        """Make a Scanner, which may be used once; ``options`` are those of pyarrow.

        ``columns`` are names in the order wanted, or a mapping of names to expressions.
        """
        return self._scanner(columns, filter, options)

    def to_table(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pa.Table:
        """Read the rows that pass ``filter`` into a Table."""
        return self._scanner(columns, filter, options).to_table()

    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that pass ``filter`` one batch after the other."""
        return self._scanner(columns, filter, options).to_batches()

    def get_fragments(self, filter: Filter = None) -> Iterator[SlotFragment]:
        """Give one fragment for each segment that may hold rows that pass ``filter``.

        Bundles that are in no segment yet, where the scan includes them, are one more.
        """
        source = self._source
        kept = {piece.part.segment for piece in source.select([], filter).pieces}
        for part in source.scan.parts:
            if part.schema is not None and part.segment in kept:
                yield SlotFragment(source, part)
        if source.scan.open_bundles:
            yield SlotFragment(source, None)

    def filter(self, expression: pc.Expression) -> SlotDataset:
        """Give a dataset of the rows that pass, on top of filters given before."""
        return type(self)(self._source.scan.select(where=expression))

    def sort_by(self, sorting: Any, **options: Any) -> pads.InMemoryDataset:
        """Read and sort all rows; gives a dataset in memory."""
        return _in_memory(levelled(self.to_table()).sort_by(sorting, **options))

    def join(self, right_dataset: Any, keys: Any, **options: Any) -> pads.InMemoryDataset:
        """Read all rows and join them with another dataset; gives a dataset in memory."""
        return _in_memory(self.to_table()).join(_real(right_dataset), keys, **options)

    def join_asof(self, right_dataset: Any, **options: Any) -> pads.InMemoryDataset:
        """Read all rows and join them by nearest key; gives a dataset in memory."""
        return _in_memory(self.to_table()).join_asof(_real(right_dataset), **options)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:  # noqa: ARG002
        """Refuse: the schema is that of the store."""
        raise InputError("the schema of a slot cannot be replaced", hint=_IN_MEMORY)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes as the scan does."""
        return type(self), (self._source.scan,)

    def __repr__(self) -> str:
        """Say which scan it stands for."""
        return f"SlotDataset({self._source.scan!r})"

    def _get_fragments(self, filter: Filter) -> Iterator[SlotFragment]:
        return self.get_fragments(filter)

    def _scanner_options(self, options: Any) -> NoReturn:  # noqa: ARG002
        raise InputError("a slot has no scanner options of pyarrow", hint=_IN_MEMORY)

    _scan_options = _scanner_options


class SlotFragment(_Readable, pads.Fragment):
    """The rows of one segment, under the schema of the whole dataset; None stands for the log."""

    def __init__(self, source: _Source, part: SlotPart | None) -> None:
        self._source, self._part = source, part

    def _select(self, columns: list[str] | None, where: Filter) -> Scan:
        segment = None if self._part is None else self._part.segment
        return self._source.select(columns, where).only(segment)

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns that the segment itself has, of their types in it."""
        return self.schema if self._part is None else self._part.schema or pa.schema([])

    @property
    def schema(self) -> pa.Schema:
        """The schema of its rows: that of the dataset."""
        return self._source.scan.schema

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pads.Scanner:
        """Make a Scanner, which may be used once; ``schema``, if given, is that of the dataset."""
        if schema is not None and not schema.equals(self.schema):
            raise InputError("a segment is read under the schema of its dataset alone")
        return self._scanner(columns, filter, options)

    def to_table(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> pa.Table:
        """Read the rows that pass ``filter`` into a Table."""
        return self.scanner(schema, columns, filter, **options).to_table()

    def to_batches(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that pass ``filter`` one batch after the other."""
        return self.scanner(schema, columns, filter, **options).to_batches()

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes as the scan does."""
        return _fragment, (self._source.scan, self._part)

    def __repr__(self) -> str:
        """Say which segment it stands for."""
        if self._part is None:
            return "SlotFragment(what is in the log alone)"
        return f"SlotFragment({self._part.segment.path!r}, {self._part.row_count:,} rows)"


def _fragment(scan: Scan, part: SlotPart | None) -> SlotFragment:
    return SlotFragment(_Source(scan), part)


def _equal(one: Any, other: Any) -> bool:
    return one is other or (one is not None and other is not None and one.equals(other))


def _same_text(one: Filter, other: Filter) -> bool:
    """Whether two filters read the same: to Arrow some are equal that are not."""
    if one is None or other is None:
        return one is other
    text = text_of(one)
    return text is not None and text == text_of(other)


def _needed(columns: Columns, schema: pa.Schema) -> list[str] | None:
    """Find the columns that a projection reads, each once; None stands for all."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        found = [name for e in columns.values() for name in columns_of(e, schema)]
        return list(dict.fromkeys(found))
    return list(dict.fromkeys(columns))


def _real(dataset: Any) -> Any:
    """Give a dataset that pyarrow's own joins can read."""
    return _in_memory(dataset.to_table()) if isinstance(dataset, SlotDataset) else dataset


def _in_memory(table: pa.Table) -> pads.InMemoryDataset:
    made: Any = pads.InMemoryDataset
    return made(table)
