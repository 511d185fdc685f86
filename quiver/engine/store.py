"""The store: append, finalize, subscribe, maintain, close, in the order of the flow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, overload

from quiver.engine import delivery, ingest, maintenance
from quiver.engine.core import Core, RecoveryReport
from quiver.engine.receipt import Receipt
from quiver.engine.subscription import Subscription
from quiver.engine.worker import Worker
from quiver.errors import ClosedError
from quiver.segment import SegmentInfo
from quiver.slots import SlotTable
from quiver.wal import Place

__all__ = ["Store", "StoreInfo"]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """One line of state per station, in flow order; sizes in bytes."""

    path: str
    store_id: str
    core: int
    durability: str
    next_wal_seq: int
    wal_bytes: int
    wal_files: int
    open_bundles: int
    open_bytes: int
    segments: int
    segment_bytes: int
    next_segment_seq: int
    subscribers: tuple[str, ...]
    acks_bytes: int


class Store:
    """An open store. Made by ``quiver.open``; safe to use from several threads of one process.

    Use it as a context manager: leaving the block finalizes what is open and lets go of the lock.
    """

    def __init__(
        self, core: Core, *, worker: bool, let_go: Callable[[], None] | None = None
    ) -> None:
        self._core = core
        self._let_go = let_go
        self._owner = os.getpid()
        self._closed = False
        self._worker = Worker(self, core) if worker else None

    # append ------------------------------------------------------------------------------------

    @overload
    def append(self, bundle: Mapping[str, Any], *, wait: Literal[True] = True) -> int: ...
    @overload
    def append(self, bundle: Mapping[str, Any], *, wait: Literal[False]) -> Receipt: ...

    def append(self, bundle: Mapping[str, Any], *, wait: bool = True) -> int | Receipt:
        """Take one bundle and give its wal_seq.

        ``bundle`` is a RecordBundle or a mapping from slot name to anything that speaks Arrow.
        When this returns the bundle survives what ``wal.durability`` promises: by default a power
        cut. With ``wait=False`` it returns a Receipt at once, to be waited on later, so that one
        thread can have many bundles on their way. Raises InputError for a bundle that this store
        cannot take and CapacityError when there is no room; nothing is written then.
        """
        self.check_usable()
        core = self._core
        payloads = ingest.encode(core, bundle)
        with core.lock:
            self.check_usable()
            wal_seq, place = ingest.take(core, payloads)
        if not wait:
            return Receipt(self, wal_seq, place)
        self.sync_place(place)
        return wal_seq

    def sync_place(self, place: Place) -> None:
        """Return once everything before a place of the WAL is as durable as the config promises."""
        if self._core.config.wal.durability == "sync":
            self.check_usable()
            self._core.log.sync(place)

    def flush(self) -> None:
        """Return once every bundle appended so far survives a power cut.

        With ``wal.durability`` ``segment`` there is no log, so this finalizes.
        """
        self.check_usable()
        if self._core.config.wal.durability == "segment":
            self.finalize()
        else:
            self._core.log.sync_all()

    # finalize ----------------------------------------------------------------------------------

    def finalize(self) -> SegmentInfo | None:
        """Turn the open segment into a durable file for subscribers and scans; None if it is empty.

        If writing fails the bundles stay where they are and the call may be repeated.
        """
        self.check_usable()
        with self._core.lock:
            return ingest.finalize(self._core)

    # subscribe ---------------------------------------------------------------------------------

    def subscribe(self, name: str) -> Subscription:
        """Take bundles as the subscriber ``name``, which is registered durably if it is new.

        A new subscriber starts with everything that is still there; from then on nothing is
        deleted before it has acked it. Names: letters, digits, dot, dash, underscore; up to 128.
        """
        self.check_usable()
        with self._core.lock:
            delivery.register(self._core, name)
        return Subscription(self, self._core, name)

    def unsubscribe(self, name: str) -> None:
        """Forget a subscriber for good; segments that only it still needed become free to go."""
        self.check_usable()
        with self._core.lock:
            delivery.unregister(self._core, name)

    # maintain ----------------------------------------------------------------------------------

    def maintain(self) -> int:
        """Do one tick: sync what waits, finalize what is old, delete what everybody has.

        Gives the number of segments deleted. The store's own worker calls it too, unless it was
        opened with ``worker=False``.
        """
        self.check_usable()
        # Outside the lock: appends go on while the log syncs.
        self._core.log.sync_all()
        with self._core.lock:
            self.check_usable()
            return maintenance.tick(self._core)

    # close -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finalize, make acks durable, and let go of everything; a second call does nothing.

        If the disk refuses, the error is raised after everything was let go of; what the WAL holds
        comes back with the next opening.
        """
        if self._closed or self.inherited:
            return
        if self._worker is not None:
            self._worker.stop()
        core = self._core
        with core.lock:
            self._closed = True
            try:
                maintenance.shut(core)
            finally:
                core.changed.notify_all()
                core.held.release()
                if self._let_go is not None:
                    self._let_go()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def inherited(self) -> bool:
        """Whether this is the copy of a store that a forked child has."""
        return os.getpid() != self._owner

    def check_usable(self) -> None:
        """Raise ClosedError after close or in a forked child, PoisonedError after a failed sync."""
        if self._closed:
            raise ClosedError("the store is closed", hint="quiver.open(path) opens it again")
        if self.inherited:
            raise ClosedError(
                "the store was opened in another process and came here by fork",
                hint="open stores after forking, one process each",
            )
        self._core.check()

    # look --------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The folder of the store."""
        return self._core.disk.locate("")

    @property
    def slots(self) -> SlotTable:
        """The slot table that the store was created with."""
        return self._core.manifest.slots

    @property
    def recovery(self) -> RecoveryReport:
        """What opening found: bundles brought back, a tail cut, damage set aside."""
        return self._core.report

    @property
    def worker_failure(self) -> Exception | None:
        """What the worker's last tick raised, if it failed; it tries again at each tick."""
        return self._worker.failure if self._worker is not None else None

    def metrics(self) -> Mapping[tuple[str, str], int]:
        """Counters since the store was opened, by (name, label)."""
        return self._core.metrics.read()

    def info(self) -> StoreInfo:
        """Describe the state of each station at this moment."""
        self.check_usable()
        core = self._core
        with core.lock:
            return StoreInfo(
                path=self.path,
                store_id=core.manifest.store_id,
                core=core.number,
                durability=core.config.wal.durability,
                next_wal_seq=core.next_wal_seq,
                wal_bytes=core.log.live_bytes,
                wal_files=core.log.file_count,
                open_bundles=core.open_segment.bundle_count,
                open_bytes=core.open_segment.payload_bytes,
                segments=len(core.catalog),
                segment_bytes=core.catalog.segment_bytes,
                next_segment_seq=core.next_segment_seq,
                subscribers=tuple(core.registry.names()),
                acks_bytes=core.acks.file_bytes,
            )

    def __enter__(self) -> Self:
        """Give the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def __reduce__(self) -> str:
        """Refuse to be pickled: a store belongs to the process that opened it."""
        raise TypeError("a Store cannot be pickled; open the store where it is used")

    def __repr__(self) -> str:
        """Say which store it is and whether it is open."""
        state = "closed" if self._closed else "open"
        return f"<Store {self.path!r} core {self._core.number}, {state}>"
