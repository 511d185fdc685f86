"""The collection at the far end: opened for writing, made by the first rows, appended to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from quiver.clock import Clock
from quiver.engine.start import Position
from quiver.errors import InputError, MissingError, QuiverError, StorageError
from quiver.ship.objects import Bucket
from quiver.upsert.feeding.offsets import furthest, read_offsets, source_names, write_offsets
from quiver.upsert.feeding.options import FeedOptions
from quiver.upsert.feeding.shaping import Shaped
from quiver.upsert.feeding.telling import Appended
from quiver.upsert.operator import Upsert
from quiver.upsert.persist import (
    Collection,
    FileRef,
    Snapshot,
    Source,
    State,
    Writer,
    write_run,
)
from quiver.upsert.rows import Commands, Definition, rows_of_buckets
from quiver.upsert.tending import Limits, Tender

__all__ = ["Target"]


class Target:
    """What one feeder writes to; whoever wrote there before is fenced."""

    def __init__(self, store: Bucket, options: FeedOptions, *, store_id: str, clock: Clock) -> None:
        """Nothing is read yet."""
        self._store, self._options, self._clock = store, options, clock
        self._store_id, self._sources = store_id, source_names(options.slot)
        self._writer: Writer | None = None
        self._tender: Tender | None = None
        self._snapshot: Snapshot | None = None

    @property
    def definition(self) -> Definition | None:
        """What the collection holds; None as long as there is none."""
        return None if self._snapshot is None else self._snapshot.definition

    def begin(self) -> dict[int, Position]:
        """Take over as the writer, and say how far the store is in. None is no error."""
        self._writer = self._tender = self._snapshot = None
        try:
            self._take_over(Collection.open(self._store, clock=self._clock))
        except MissingError:
            return {}
        return read_offsets(self._store_id, self._splits())

    def _take_over(self, collection: Collection) -> None:
        self._writer = writer = collection.writer()
        # Nobody else appends from here on: what is read now stays true.
        self._snapshot = snapshot = writer.snapshot()
        buckets, key = self._options.buckets, list(self._options.key)
        if buckets not in (None, snapshot.buckets):
            raise InputError(
                f"buckets: {snapshot.place} has {snapshot.buckets:,}, not {buckets:,}",
                hint="the number is chosen once, when a collection is made; leave it out",
            )
        if snapshot.definition.key.names != key:
            raise InputError(
                f"key: that of {snapshot.place} is {', '.join(snapshot.definition.key.names)}",
                hint="the key is chosen once, when a collection is made",
            )
        limits = Limits(history=self._options.history)
        self._tender = Tender(writer, limits, clock=self._clock)

    def tend(self) -> None:
        """Fold, forget and sweep what is due; most of the time that is nothing."""
        if self._tender is not None and self._writer is not None:
            with self._there():
                self._tender.tend()
                self._snapshot = self._writer.snapshot()

    @contextmanager
    def _there(self) -> Iterator[None]:
        """Say of a collection that was deleted meanwhile that it was, whatever missed it first."""
        try:
            yield
        except (MissingError, StorageError) as error:
            if self._snapshot is None:
                raise  # There was none: it could not be made.
            place = self._snapshot.place
            try:
                Collection.open(self._store, clock=self._clock)
            except MissingError:
                raise MissingError(
                    f"the collection {place} was deleted while it was written",
                    path=place,
                    hint="another one is begun with a new subscriber, or one that is reset: it is "
                    "given what the store still has",
                ) from error
            except QuiverError:  # Nobody knows.
                raise error from None
            raise

    def _splits(self) -> dict[str, int]:
        """Say how far all sources of the slot are in, whoever wrote that."""
        known = {} if self._snapshot is None else self._snapshot.sources
        return furthest(known[name].splits for name in self._sources if name in known)

    def append(self, shaped: Shaped | None, positions: Mapping[int, Position]) -> Appended | None:
        """Let commands in as the next epoch, with how far the store is then; durable.

        None if there is nothing to be let in, nor a collection. Raises FencedError, RemoteError,
        UnclearError if nobody knows whether it is in, MissingError if somebody deleted it all.
        """
        with self._there():
            return self._append(shaped, positions)

    def _append(self, shaped: Shaped | None, positions: Mapping[int, Position]) -> Appended | None:
        if self._snapshot is None or self._writer is None:
            if shaped is None:
                return None
            made = Collection.open(self._store, shaped.definition, create=True, clock=self._clock)
            self._take_over(made)
        writer, snapshot = self._writer, self._snapshot
        assert writer is not None  # noqa: S101
        assert snapshot is not None  # noqa: S101
        refs: list[FileRef] = []
        if shaped is not None:
            snapshot = snapshot.widened(shaped.definition.value)
            refs = self._runs(snapshot, shaped.commands)
        source = self._sources[0]
        number = snapshot.sources.get(source, Source()).batch + 1
        splits = furthest([self._splits(), write_offsets(self._store_id, positions)])
        epoch = snapshot.upper
        appended = writer.append(
            refs,
            epoch,
            sources={source: Source("", number, splits)},
            value=snapshot.definition.value,
        )
        self._snapshot = appended.snapshot
        commands = None if shaped is None else shaped.commands
        return Appended(
            epoch,
            row_count=0 if commands is None else len(commands),
            bundle_count=0,
            change_count=sum(ref.rows for ref in refs),
            error_count=0 if commands is None else len(commands) - commands.errors.null_count,
            file_count=len(refs),
            file_bytes=sum(ref.byte_count for ref in refs),
        )

    def _runs(self, snapshot: Snapshot, commands: Commands) -> list[FileRef]:
        """Write what commands change in each bucket."""
        order, edges = rows_of_buckets(commands.hashes, snapshot.buckets)
        refs = []
        for bucket in np.flatnonzero(np.diff(edges)).tolist():
            some = commands.take(order[edges[bucket] : edges[bucket + 1]])
            ref = self._run(snapshot, some, bucket=bucket)
            if ref is not None:
                refs.append(ref)
        return refs

    def _run(self, snapshot: Snapshot, commands: Commands, *, bucket: int) -> FileRef | None:
        epoch = snapshot.upper
        operator = Upsert(snapshot.definition, resume_upper=epoch)
        operator.push(commands, epoch)
        step = operator.step(epoch + 1, State(self._store, snapshot, bucket))
        if not step.diffs:
            return None
        diffs = pa.concat_tables(step.diffs)
        return write_run(self._store, snapshot, diffs, bucket=bucket, clock=self._clock)
