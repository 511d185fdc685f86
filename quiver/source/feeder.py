"""A source into a store: each row once, whatever ends the process that reads it.

What was read and what follows it go into one entry of the log, so there is nothing to agree on: who
comes next begins where the last durable bundle ended. A batch is a bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from quiver.clock import Clock, SystemClock
from quiver.engine import Follower, Receipt, Store
from quiver.errors import CapacityError, InputError, SourceError
from quiver.events import Events
from quiver.source.acker import Acker
from quiver.source.connector_source import ConnectorSource
from quiver.source.discovery import EVERY, Discovery
from quiver.source.lane import SourceChunk
from quiver.source.parser import Parser, dead_letter_rows
from quiver.source.protocols import Connector
from quiver.units import parse_duration

__all__ = ["Fed", "Feeder"]

_LOOK_SECONDS: Final = 0.25
"""So long a step waits for something to read."""
_UNSYNCED_MAX: Final = 64
"""Bundles that are on their way to the disk at a time."""
_RETRIES: Final = 10
"""How often in a row a source that may get well is asked again."""


@dataclass(slots=True)
class Fed:
    """What one run of a feeder came to."""

    bundle_count: int = 0
    row_count: int = 0
    dead_letter_count: int = 0
    wal_seq_first: int | None = None
    wal_seq_last: int | None = None
    states: dict[str, str] = field(default_factory=dict)
    """What follows the rows appended, of each split, also of those read before."""


class Feeder:
    """Reads a connector for a store, as the follower ``source`` of it. One thread runs it.

    ``columns`` go to the readers. Raises LockedError if somebody follows that source already, and
    DamagedEntry if it is lost how far it was read, unless ``begin_anew`` accepts that. What a
    ``parser`` sets aside goes to the slot ``dead_letters``, in the same bundle as the rows around
    it; without one it is an error.
    """

    def __init__(
        self,
        store: Store,
        connector: Connector,
        *,
        source: str,
        slot: str,
        columns: Sequence[str] | None = None,
        clock: Clock | None = None,
        every: float | str = EVERY,
        begin_anew: bool = False,
        parser: Parser | None = None,
        dead_letters: str | None = None,
    ) -> None:
        """Begin to follow, and list the splits; nothing is read yet."""
        self._store = store
        self._connector = connector
        self._slot = slot
        self._columns = columns
        self._parser = parser
        self._dead_letters = dead_letters
        if dead_letters is not None and dead_letters == slot:
            raise InputError(f"rows and dead letters cannot both go to slot {slot!r}")
        self._clock = clock or SystemClock()
        self._stopping = False
        self._receipts: list[tuple[Receipt, dict[str, str]]] = []
        self._pending: dict[str, str] = {}
        """States behind batches without rows: they go with the next bundle."""
        self._failures = 0
        self._is_fresh = False
        self._is_stale = False
        self._follower: Follower = store.follow(source, begin_anew=begin_anew)
        try:
            self.fed = Fed(states=dict(self._follower.states))
            self._discovery = Discovery(connector, clock=self._clock, every=every)
        except BaseException:
            self._follower.close()
            raise
        try:
            self._source = self._begin()
        except BaseException:
            self._discovery.close()
            self._follower.close()
            raise
        self._acker = Acker(connector, Events(source=connector.name))

    def _begin(self, *, threads: bool = True) -> ConnectorSource:
        states = {**self.fed.states, **self._pending}
        return ConnectorSource(
            self._connector,
            self._discovery.splits,
            states=states,
            columns=self._columns,
            parser=self._parser,
            threads=threads,
        )

    def stop(self) -> None:
        """Let ``run`` come to an end; from any thread, or a signal handler."""
        self._stopping = True

    def run(
        self,
        *,
        once: bool = False,
        idle: float | str = "5s",
        watch: Callable[[int], object] = lambda _: None,
    ) -> Fed:
        """Append what comes until ``stop``; all of it is durable, and in segments, at the end.

        With ``once`` it ends as well when every split is drained, or nothing came for ``idle``.
        ``watch`` is told the rows of each bundle. Raises SourceError for what does not go away, and
        what ``Store.append`` raises; what was appended before stays, and the next run goes on from
        there.
        """
        idle_ns = parse_duration(idle)
        if self._is_stale:
            self._go_back()
        self._is_stale = True  # A chunk that is taken and not appended would be passed over.
        heard_ns = self._clock.monotonic_ns()
        while not self._stopping:
            chunk = self._next()
            if chunk is not None:
                heard_ns = self._clock.monotonic_ns()
                self._take(chunk, watch)
                continue
            self._settle()
            if self._is_fresh:
                self._is_fresh = False  # Nothing was heard of it because it has just begun.
                heard_ns = self._clock.monotonic_ns()
            elif once and self._discovery.tick(now=True):
                self._restart()
            elif once and self._is_over(heard_ns + idle_ns):
                if self._is_dry():
                    break
                self._restart()
        self._settle()
        self._store.finalize()
        self._is_stale = False
        return self.fed

    def _go_back(self) -> None:
        """Go on behind what the store has: also where an append was in, and nobody heard of it."""
        self.fed.states.update(self._store.progress(self._follower.source))
        self._pending.clear()  # They may be older than that.
        self._restart()

    def _is_over(self, until_ns: int) -> bool:
        if self._source.is_ready():
            return False
        names = {split.id for split in self._discovery.splits}
        is_drained = bool(names) and self._source.drained >= names
        return is_drained or self._clock.monotonic_ns() >= until_ns

    def _is_dry(self) -> bool:
        """Ask each split itself: what the last look found, nobody may have begun to read yet."""
        self._source.close()
        self._source = self._begin(threads=False)
        try:
            return self._source.poll() is None
        except SourceError as error:
            if not error.retryable:
                raise
            return True  # Nothing came for long, and now nothing does.

    def _next(self) -> SourceChunk | None:
        """Read on; a source that failed and may get well is made anew, from what was appended."""
        if self._discovery.tick():
            self._restart()
        try:
            chunk = self._source.next(_LOOK_SECONDS)
        except SourceError as error:
            self._failures += 1
            if not error.retryable or self._failures > _RETRIES:
                raise
            self._settle()
            for _ in range(self._failures):
                if not self._stopping:
                    threading.Event().wait(_LOOK_SECONDS)
            self._restart()
            return None
        if chunk is not None:
            self._failures = 0
        return chunk

    def _restart(self) -> None:
        """Read all splits from what was appended of them; what was read ahead is read again."""
        self._source.close()
        self._source = self._begin()
        self._is_fresh = True

    def _take(self, chunk: SourceChunk, watch: Callable[[int], object]) -> None:
        bundle = self._bundle(chunk)
        if not bundle:
            self._pending[chunk.split] = chunk.state
            return
        rows = chunk.batch.num_rows
        states = {**self._pending, chunk.split: chunk.state}
        receipt = self._append(bundle, states)
        if receipt is None:
            return
        self._pending.clear()
        fed = self.fed
        fed.states.update(states)
        fed.bundle_count += 1
        fed.row_count += rows
        fed.dead_letter_count += len(chunk.dead_letters)
        fed.wal_seq_first = receipt.wal_seq if fed.wal_seq_first is None else fed.wal_seq_first
        fed.wal_seq_last = receipt.wal_seq
        self._receipts.append((receipt, states))
        watch(rows)
        if len(self._receipts) >= _UNSYNCED_MAX:
            self._settle()

    def _bundle(self, chunk: SourceChunk) -> dict[str, pa.RecordBatch]:
        """Give what there is to append of a chunk; nothing if it has moved the state alone."""
        bundle = {self._slot: chunk.batch} if chunk.batch.num_rows else {}
        if chunk.dead_letters:
            if self._dead_letters is None:
                raise SourceError(
                    f"split {chunk.split}: {chunk.dead_letters[0].reason}",
                    split=chunk.split,
                    hint="dead_letters= names a slot for what cannot be taken",
                )
            bundle[self._dead_letters] = dead_letter_rows(chunk.dead_letters)
        return bundle

    def _append(self, bundle: dict[str, pa.RecordBatch], states: dict[str, str]) -> Receipt | None:
        """Append a bundle, in a full store once there is room; None if it was stopped before."""
        progress = self._follower.at(states)
        while True:
            try:
                return self._store.append(
                    bundle, wait=False, timeout=_LOOK_SECONDS, progress=progress
                )
            except CapacityError:
                self._settle()
                if self._stopping:
                    return None

    def _settle(self) -> None:
        """Wait until what was appended is durable, and let the source hear of it."""
        if not self._receipts:
            return
        self._receipts[-1][0].wait()  # All before it are durable then, too.
        for _, states in self._receipts:
            self._acker.post(states)
        self._receipts.clear()

    def close(self) -> None:
        """Let go of the source, and let others follow it; the store stays open."""
        self._source.close()
        self._acker.close()
        self._discovery.close()
        self._follower.close()
