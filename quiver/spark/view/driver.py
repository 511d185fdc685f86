"""The one process of a streaming query that decides: where it begins, and what comes next.

It only looks at the manifest, and what it shares out names files that never change. So a batch that
is done again has the same rows, however often files were folded meanwhile, until the collection has
forgotten its epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from quiver.clock import Clock
from quiver.errors import InputError, SourceError
from quiver.events import Events
from quiver.schemas import same_type
from quiver.source.stores import Limits
from quiver.spark.view.offsets import Offset, decode_offset, encode_offset
from quiver.spark.view.plan import (
    bytes_by_bucket,
    bytes_by_epoch,
    check_kept,
    first_epoch,
    only_buckets,
)
from quiver.spark.view.query import ViewQuery
from quiver.spark.view.shares import Range, Share, share_out
from quiver.upsert.persist import Collection, Snapshot

__all__ = ["ViewDriver"]

_RESTART: Final = (
    "stop the query and start it again with the same checkpoint: it takes them up then"
)


class ViewDriver:
    """Answers what Spark asks of a source. One thread at a time."""

    def __init__(self, query: ViewQuery, *, clock: Clock) -> None:
        """Ask nothing of the collection yet."""
        self._query, self._clock = query, clock
        self._events = Events(store=query.place)
        self._collection: Collection | None = None
        self._seen: tuple[int, Snapshot] | None = None
        self._initial: Offset | None = None
        self._target: int | None = None
        self._given: Offset | None = None

    # what Spark asks -----------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Say where a query without a checkpoint begins."""
        if self._initial is None:
            query, snapshot = self._query, self._look()
            if query.begin is None:
                first = snapshot.latest + (not query.with_state)
            else:
                first = first_epoch(query.begin, snapshot)
            self._initial = Offset(first, first, query.with_state)
        return self._encode(self._initial)

    def aim(self) -> None:
        """Take what is there now as the end of the query."""
        self._target = self._look(now=True).upper

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Say up to where the next batch goes; ``start`` itself if there is nothing new."""
        begin, snapshot = self._decode(start), self._look()
        self._check_reached(begin, snapshot)
        limits = self._query.limits if is_limited else Limits()
        self._given = begin.to(self._end(begin, snapshot, limits))
        return self._encode(self._given)

    def report(self) -> dict[str, Any]:
        """Say how far the collection is, and how much of that is in no batch yet."""
        snapshot = self._look()
        given = snapshot.upper if self._given is None else self._given.epoch
        count = max(0, snapshot.upper - given)
        sizes = bytes_by_epoch(snapshot)
        size = int(sizes[len(sizes) - min(count, len(sizes)) :].sum())
        behind = {"bytes": size, "epochs": count}
        return {"behind": behind, "collection": self._query.place, "epoch": snapshot.upper}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Share]:
        """Share out what lies between two offsets."""
        query, stop = self._query, self._decode(end)
        begin, snapshot = self._decode(start).before(stop), self._look(now=True)
        self._check_reached(stop, snapshot)
        self._check_columns(snapshot)
        self._given = self._given or stop
        span = self._range(begin, stop.epoch, snapshot)
        sizes = query.recipe.sizes(snapshot, span)
        query.recipe.check_errors(Share(snapshot, tuple(sizes), span))
        shares = share_out(sizes, bytes_max=query.bytes_max, count_min=query.count_min)
        return [Share(only_buckets(snapshot, buckets), buckets, span) for buckets in shares]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the collection keeps its epochs for a number of them, and for nobody."""

    def close(self) -> None:
        """There is nothing to let go of."""

    # ---------------------------------------------------------------------------------------------

    def _look(self, *, now: bool = False) -> Snapshot:
        """Read the manifest, at most so often unless it is to be ``now``."""
        query, now_ns = self._query, self._clock.monotonic_ns()
        if now or self._seen is None or now_ns - self._seen[0] >= query.poll_ns:
            if self._collection is None:
                self._collection = Collection.open(query.recipe.store)
            snapshot = self._collection.snapshot()
            if snapshot.manifest.collection != query.collection:
                raise InputError(
                    f"the collection at {query.place} is another one than when the query was made",
                    hint="load it again; begin anew with an empty checkpoint",
                )
            self._seen = now_ns, snapshot
        return self._seen[1]

    def _end(self, begin: Offset, snapshot: Snapshot, limits: Limits) -> int:
        """Say with which epoch a batch ends that begins there; it has one at least, if any is."""
        upto = snapshot.upper if self._target is None else min(self._target, snapshot.upper)
        if begin.epoch >= upto:
            return begin.epoch
        sizes, after = bytes_by_epoch(snapshot), snapshot.since + 1
        epochs_max, bytes_max = limits.segments_max, limits.bytes_max
        end, size = begin.epoch, 0.0
        while end < upto:
            if begin.wants_state and end == begin.epoch:
                size += sum(bytes_by_bucket(snapshot, Range(state=end)).values())
            elif end >= after:
                size += sizes[end - after]
            is_full = (epochs_max is not None and end - begin.epoch >= epochs_max) or (
                bytes_max is not None and size > bytes_max
            )
            if is_full and end > begin.epoch:
                break
            end += 1
        return end

    def _range(self, begin: Offset, stop: int, snapshot: Snapshot) -> Range:
        """Say what a batch reads; raises SourceError where some of it is forgotten."""
        first, with_state, last = begin.epoch, begin.wants_state, stop - 1
        if first >= stop:
            return Range()
        try:
            check_kept(first, snapshot, with_state=with_state)
        except SourceError as error:
            if self._query.fails_on_loss:
                raise SourceError(
                    error.message,
                    split=error.split,
                    hint=f"{error.hint}; begin anew with an empty checkpoint, or go on with what "
                    "is left, which does not add up: failOnDataLoss=false",
                ) from error
            self._warn(error)
            first = snapshot.since if with_state else snapshot.since + 1
        if with_state:
            return Range(first, first + 1, last)
        return Range(first=first, last=last)

    def _check_reached(self, offset: Offset, snapshot: Snapshot) -> None:
        if offset.epoch > snapshot.upper:
            raise SourceError(
                f"the checkpoint is at epoch {offset.epoch} of {snapshot.place}, and the next one "
                f"there is {snapshot.upper}",
                split=snapshot.place,
                hint="its manifest is an older one than it was: begin anew with an empty "
                "checkpoint",
            )

    def _check_columns(self, snapshot: Snapshot) -> None:
        """Raise InputError if the collection has columns by now that the query does not know."""
        query, recipe = self._query, self._query.recipe
        found = replace(recipe.columns, definition=snapshot.definition).schema
        new = [name for name in found.names if name not in recipe.stored.names]
        if new and not query.ignores_change:
            raise InputError(
                f"{query.place} has new columns: {', '.join(new)}",
                hint=f"{_RESTART}; or leave them out: schemaChange=ignore",
            )
        for field in recipe.stored:
            kind = found.field(field.name).type
            if not same_type(kind, field.type):
                raise InputError(
                    f"{query.place} has column {field.name!r} as {kind} by now, and the query was "
                    f"started with {field.type}",
                    hint=_RESTART,
                )

    def _warn(self, error: SourceError) -> None:
        if self._events.is_first(str(error)):
            self._events.warning("spark.changes_lost", split=error.split, error=error)
            self._events.tell()

    def _encode(self, offset: Offset) -> dict[str, Any]:
        return encode_offset(offset, collection=self._query.collection)

    def _decode(self, offset: Mapping[str, Any]) -> Offset:
        return decode_offset(offset, collection=self._query.collection, place=self._query.place)
