"""A source of which a test holds every string: rows in lists, readers that fail when told to."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa

from quiver.errors import ClosedError, InputError, SourceError
from quiver.source import Split, SplitBatch, decode_state, encode_state


class ToySource:
    """A connector: ``rows`` of each split, given out ``batch_rows`` at a time."""

    name = "toy"

    def __init__(self, rows: Mapping[str, Sequence[int]], batch_rows: int = 2) -> None:
        self.rows = {name: list(values) for name, values in rows.items()}
        self.batch_rows = batch_rows
        self.drops_splits = False
        self.ended: set[str] = set()
        self.failing: dict[str, SourceError] = {}
        self.listing: Exception | None = None
        self.acked: list[dict[str, str]] = []
        self.refusal: SourceError | None = None
        self.readers: list[ToyReader] = []
        self.enumerators = 0
        self.changed = threading.Condition()

    def feed(self, split: str, values: Sequence[int]) -> None:
        with self.changed:
            self.rows.setdefault(split, []).extend(values)
            self.changed.notify_all()

    def splits(self) -> list[Split]:
        return [Split(name) for name in sorted(self.rows)]

    def enumerator(self) -> ToyEnumerator:
        self.enumerators += 1
        return ToyEnumerator(self)

    def reader(self, split: Split, state: str | None, columns: Sequence[str] | None) -> ToyReader:
        reader = ToyReader(self, split, state_place(state), columns)
        self.readers.append(reader)
        return reader

    def acknowledge(self, states: Mapping[str, str]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.acked.append(dict(states))


class ToyEnumerator:
    def __init__(self, source: ToySource) -> None:
        self._source = source

    def list_splits(self) -> list[Split]:
        if self._source.listing is not None:
            raise self._source.listing
        return self._source.splits()

    def close(self) -> None:
        pass


class ToyReader:
    def __init__(
        self, source: ToySource, split: Split, place: int, columns: Sequence[str] | None
    ) -> None:
        self._source = source
        self._split = split.id
        self._place = place
        if columns is not None and not set(columns) <= {"value", "twice"}:
            raise InputError(f"there is no such column: {columns}", hint="value, twice")
        self._columns = columns
        self.is_closed = False

    def next(self, timeout: float) -> SplitBatch | None:
        source = self._source
        with source.changed:
            if not self._is_ready() and timeout > 0:
                source.changed.wait_for(self._is_ready, timeout)
            if self.is_closed:
                raise ClosedError("the reader is closed")
            failure = source.failing.pop(self._split, None)
            if failure is not None:
                raise failure
            first = self._place
            values = source.rows[self._split][first : first + source.batch_rows]
        if not values:
            return None
        self._place += len(values)
        columns = {"value": values, "twice": [2 * value for value in values]}
        batch = pa.RecordBatch.from_pydict(columns)
        if self._columns is not None:
            batch = batch.select(list(self._columns))
        offsets = pa.array(range(first, self._place), pa.int64())
        return SplitBatch(batch, offsets, toy_state(self._place))

    def is_drained(self) -> bool:
        done = self._place >= len(self._source.rows[self._split])
        return done and self._split in self._source.ended

    def close(self) -> None:
        with self._source.changed:
            self.is_closed = True
            self._source.changed.notify_all()

    def _is_ready(self) -> bool:
        source = self._source
        is_failing = self._split in source.failing
        return self.is_closed or is_failing or len(source.rows[self._split]) > self._place


def toy_state(place: int) -> str:
    return encode_state("toy", 1, {"next": place})


def state_place(state: str | None) -> int:
    if state is None:
        return 0
    place = decode_state(state, connector="toy", version=1).get("next")
    if not isinstance(place, int):
        raise InputError("a toy state names the next row", hint="toy_state(3)")
    return place
