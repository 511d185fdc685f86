"""Read one core of a store, bundle by bundle, from a state on, and wait for what comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.clock import Clock
from quiver.disk import Disk, Watch
from quiver.engine.numbers import core_folder
from quiver.errors import ClosedError, MissingError, SourceError
from quiver.manifest import StoreManifest
from quiver.scan import Scan, conform
from quiver.source.protocols import SplitBatch
from quiver.source.stores.bundles import Span, read_span
from quiver.source.stores.planner import Planner
from quiver.source.stores.position import START, Position, core_of, decode, encode, split_id
from quiver.units import SECOND

__all__ = ["OFFSET", "CoreReader"]

OFFSET: Final = pa.struct(
    [("segment_seq", pa.int64()), ("bundle_index", pa.int64()), ("row", pa.int64())]
)
"""Where a row is: its segment, its bundle in there, and which row of that bundle it is."""


class CoreReader:
    """The ``SplitReader`` of a store: rows of one slot of one core, of finalized segments alone.

    One batch is one bundle's rows of the slot. It holds no file open between two calls.
    """

    def __init__(
        self,
        disk: Disk,
        split: str,
        state: str | None,
        *,
        slot: str,
        columns: Sequence[str] | None,
        clock: Clock,
        fail_on_loss: bool = True,
        let_go: Callable[[], object] = lambda: None,
    ) -> None:
        """Go on behind ``state``; ``let_go`` is called at the end."""
        manifest = StoreManifest.read(disk)
        self._disk, self._store_id = disk, manifest.store_id
        self._core, self._slot_id = core_of(split), manifest.slots[slot].slot_id
        self._slot = slot
        self._columns = None if columns is None else tuple(columns)
        self._at = decode(state, manifest.store_id)
        self._is_begun = state is not None
        self._planner = Planner(disk, self._slot_id, clock=clock, fail_on_loss=fail_on_loss)
        self._clock = clock
        self._read: Iterator[tuple[int, pa.RecordBatch]] | None = None
        self._span: Span | None = None
        self._ahead: tuple[int, pa.RecordBatch] | None = None
        self._closed, self._reading = False, threading.Lock()
        self._let_go = let_go
        self._watch = Watch(disk, ["", f"{core_folder(self._core)}/segments"])

    def next(self, timeout: float) -> SplitBatch | None:
        """Give the rows of the next bundle, or wait so long for one."""
        until_ns = self._clock.monotonic_ns() + int(timeout * SECOND)
        found = self._next()
        while found is None and (rest_ns := until_ns - self._clock.monotonic_ns()) > 0:
            is_changed = self._watch.wait(rest_ns / SECOND)
            found = self._next()
            if not is_changed:
                break
        return found

    def _next(self) -> SplitBatch | None:
        with self._reading:
            if self._closed:
                raise ClosedError("the reader is closed", hint="make a new one from the last state")
            try:
                return self._step()
            except BaseException as error:
                self._read = self._ahead = None  # The next call begins where this one did.
                if isinstance(error, MissingError):
                    raise SourceError(str(error), split=split_id(self._core)) from error
                raise

    def _step(self) -> SplitBatch | None:
        """Read on in the open segment, or in the next one that is there."""
        if self._read is None:
            self._span = self._find()
            if self._span is None:
                return None
            self._read = read_span(self._disk, self._span, self._slot_id, columns=self._columns)
            self._ahead = next(self._read, None)
        segment = 0 if self._span is None else self._span.segment.segment_seq
        found = self._ahead
        self._ahead = None if found is None else next(self._read, None)
        if self._ahead is None:  # What else is in there has nothing of the slot.
            self._read = None
            self._at = Position(segment + 1)
        elif found is not None:
            self._at = Position(segment, found[0] + 1)
        if found is None:
            return self._batch(pa.record_batch({}), Position(segment, 0))
        return self._batch(self._chosen(found[1]), Position(segment, found[0]))

    def _find(self) -> Span | None:
        """Find the next segment; a reader without a state begins with the first that is there."""
        if not self._is_begun:
            self._at = self._planner.start("earliest").get(self._core, START)
            self._is_begun = True
        return self._planner.following(self._core, self._at)

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the columns that were asked for, in that order; one that a bundle lacks is null."""
        if self._columns is None:
            return batch
        missing = [name for name in self._columns if name not in batch.schema.names]
        if not missing:
            return batch.select(list(self._columns))
        # Which type it has is known to bundles that have it; that there is none is an error.
        known = Scan(self._disk.locate(""), slot=self._slot, columns=missing).schema
        fields = [
            (known if name in missing else batch.schema).field(name) for name in self._columns
        ]
        return conform(batch, pa.schema([f.with_nullable(nullable=True) for f in fields]))

    def _batch(self, batch: pa.RecordBatch, place: Position) -> SplitBatch:
        rows = batch.num_rows
        constant: Any = pa.array(np.full(rows, place.segment_seq, np.int64))
        index: Any = pa.array(np.full(rows, place.bundle_index, np.int64))
        offsets = pa.StructArray.from_arrays(
            [constant, index, pa.array(np.arange(rows, dtype=np.int64))], fields=list(OFFSET)
        )
        return SplitBatch(batch, offsets, encode(self._at, self._store_id))

    def is_drained(self) -> bool:
        """Whether the core's folder is gone, so that nothing can come."""
        return self._read is None and self._disk.stat(core_folder(self._core)) is None

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        self._closed = True  # Before anybody is woken: who is woken by it is told of it.
        self._watch.close()
        with self._reading:
            self._read = None
            let_go, self._let_go = self._let_go, lambda: None
            let_go()
