"""The store: append, finalize, subscribe, maintain, close, in the order of the flow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from quiver.engine import ingest, maintenance, sealed
from quiver.engine.commit import GroupCommit, settling
from quiver.engine.core import Core
from quiver.engine.durable import DurableDesk
from quiver.engine.facts import StoreFacts
from quiver.engine.following import FollowerDesk
from quiver.engine.listeners import Listeners
from quiver.engine.outgoing import have_written, write_waiting
from quiver.engine.progress import Progress
from quiver.engine.receipt import Receipt
from quiver.engine.room import block_ns, take_in_time
from quiver.engine.scribe import Scribe
from quiver.engine.subscriber_desk import SubscriberDesk
from quiver.engine.timekeeping import heartbeat
from quiver.engine.worker import Listening, Worker
from quiver.errors import CapacityError, ClosedError
from quiver.segment import SegmentInfo
from quiver.timeline import Time, time_ns

if TYPE_CHECKING:
    from quiver.cursors import Block, Cursor

__all__ = ["Store"]


class Store(SubscriberDesk, DurableDesk, FollowerDesk, StoreFacts):
    """An open store. Made by ``quiver.open``; safe to use from several threads of one process.

    Use it as a context manager: leaving the block finalizes what is open and lets go of the lock.
    A signal handler may call it, and gets CapacityError while its thread is in another call.
    """

    def __init__(
        self, core: Core, *, worker: Worker | None, let_go: Callable[[], None] | None = None
    ) -> None:
        self._core = core
        self._let_go = let_go
        self._closed = False
        self._commit = GroupCommit(core)
        core.listeners.add(settling(self._commit))
        self._worker: Worker | None = None
        self._scribe: Scribe | None = None
        if worker is not None:
            self.employ(worker)

    def employ(self, worker: Worker) -> None:
        """Let a worker keep up this store; ``quiver.open`` and the asyncio face see to it."""
        self._worker = worker
        self._commit.later = partial(worker.post_if_open, Listening(settling(self._commit)))
        self._scribe = Scribe(self._core)
        worker.serve(self, self._core)
        self._core.outgoing.enabled = self._core.config.wal.durability == "sync"
        with self._core.lock, self._core.whole():
            if maintenance.seal_if_due(self._core):  # A recovery may have left that much.
                self._scribe.ask()

    # append ------------------------------------------------------------------------------------

    @overload
    def append(
        self,
        bundle: Mapping[str, Any],
        *,
        wait: Literal[True] = True,
        timeout: float | str | None = None,
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> int: ...
    @overload
    def append(
        self,
        bundle: Mapping[str, Any],
        *,
        wait: Literal[False],
        timeout: float | str | None = None,
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> Receipt: ...

    def append(
        self,
        bundle: Mapping[str, Any],
        *,
        wait: bool = True,
        timeout: float | str | None = None,
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> int | Receipt:
        """Take one bundle and give its wal_seq.

        ``bundle`` is a RecordBundle or a mapping from slot name to anything that speaks Arrow.
        When this returns the bundle survives what ``wal.durability`` promises: by default a power
        cut. With ``wait=False`` it returns a Receipt at once, to be waited on later, so that one
        thread can have many bundles on their way; until it says so nothing is promised. ``timeout``
        is how long to wait for room in a full store, in seconds or as ``"10s"``; the option
        ``retention.block_timeout`` if it is not given. Raises InputError for a bundle that this
        store cannot take and CapacityError when there is no room in that time; nothing is written
        then. ``progress``, made by a Follower, says how far a source was read with this bundle, and
        is as durable as that. ``time`` is that of the bundle, if ``segment.time`` is ``caller``;
        OutOfSequenceError if it is below the last one of this core.
        """
        self.check_usable()
        core = self._core
        given_ns = None if time is None else time_ns(time)
        limit_ns = block_ns(core, timeout)
        payloads = ingest.encode(core, bundle, progress)
        try:
            with core.lock:
                self.check_state()
                taken = take_in_time(
                    core,
                    payloads,
                    limit_ns,
                    tick=self._tick_in_vain,
                    progress=progress,
                    later=not wait,
                    time_ns=given_ns,
                )
        except CapacityError:
            core.events.tell()
            raise
        self._follow_up(taken, wait=wait)
        return taken.ticket.wal_seq if wait else Receipt(self, taken.ticket)

    def append_again(
        self,
        bundle: Mapping[str, Any],
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> Receipt:
        """Take a bundle that found no room before, if there is room now, and count it no more.

        For the asyncio face, whose tasks do the waiting. Raises what ``append`` raises.
        """
        self.check_usable()
        payloads = ingest.encode(self._core, bundle, progress)
        given_ns = None if time is None else time_ns(time)
        with self._core.lock:
            self.check_state()
            taken = ingest.take(self._core, payloads, progress, later=True, time_ns=given_ns)
        self._follow_up(taken, wait=False)
        return Receipt(self, taken.ticket)

    def _follow_up(self, taken: ingest.Taken, *, wait: bool) -> None:
        """See to what comes behind the taking: a segment that is due, and durability."""
        core, worker = self._core, self._worker
        wal = core.config.wal
        if taken.entry is not None:
            taken.entry.parts()  # Here, where nobody waits for it and all of it is at hand.
        if taken.has_sealed:
            self._write_sealed()
        elif self._scribe is not None:
            self._scribe.look_ahead()
        if wait and wal.durability == "sync":
            # Its entry is in the log by now.
            self._commit.sync(taken.ticket)
        elif worker is not None and wal.durability != "segment":
            worker.flush_within(wal.flush_interval)
            if taken.entry is not None:
                have_written(core, worker)
        if core.events.noted:
            core.events.tell()

    def wait_for_room_ns(self, timeout: float | str | None) -> int:
        """Give how long an append with this timeout waits for room in a full store."""
        return block_ns(self._core, timeout)

    def _tick_in_vain(self) -> None:
        """Make room for an append that waits for it; the worker does, if there is one."""
        self.check_state()
        if self._worker is None or self._worker.ended or self._worker.is_current:
            with contextlib.suppress(CapacityError):  # The disk is full: that is waited for.
                maintenance.tick(self._core)

    def heartbeat(self, time: Time | None = None) -> int:
        """Promise that no bundle of this core will be of ``time`` or before, and give it.

        For cursors that merge this core with others, which wait no longer for one that is idle.
        With ``segment.time`` ``writer`` the time is now, and the store's worker calls it at each
        tick; with ``caller`` only the caller knows, and lower times are refused from then on.
        """
        self.check_usable()
        with self._core.lock:
            self.check_state()
            return heartbeat(self._core, None if time is None else time_ns(time))

    def cursor(self, **options: Any) -> Cursor:  # noqa: ANN401
        """Go through all cores of this store in order of time; the options of ``quiver.cursor``.

        It reads what is on the disk, and lives no longer than the store.
        """
        from quiver.cursors import cursor

        self.check_usable()
        core = self._core
        return cursor(self, disk=core.disk, clock=core.clock, **options)

    def find_block(self, time: Time) -> tuple[Block, ...]:
        """Give the finished segment of this core that a time is in, or else the next one.

        It is one at most, but for what ``Cursor.find_block`` says.
        """
        number = self._core.number
        with self.cursor(partitions=number) as found:
            return found.find_block(time, number)

    @property
    def listeners(self) -> Listeners:
        """Functions that are called at each change; the asyncio face wakes its tasks by them."""
        return self._core.listeners

    # finalize ----------------------------------------------------------------------------------

    def _write_sealed(self) -> None:
        """See to it that what is sealed becomes a file: somebody else does it, if there is one."""
        if self._scribe is not None and self._scribe.ask():
            return
        with self._core.events.telling(), self._core.lock:
            sealed.try_write_sealed(self._core)
        self._tell()

    def finalize(self) -> SegmentInfo | None:
        """Turn the open segment into a durable file for subscribers and scans; None if it is empty.

        If writing fails the bundles stay where they are and the call may be repeated. What the disk
        refused before is told as ``flush`` does.
        """
        self.check_usable()
        with self._core.events.telling(), self._core.lock:
            self.check_state()  # Somebody may have closed it while this waited for the lock.
            info = sealed.finalize(self._core)
        self._tell()
        self._core.outgoing.tell_rest()
        return info

    def on_finalize(self, callback: Callable[[SegmentInfo], object]) -> Callable[[], None]:
        """Call a function with each segment that is finalized from now on, in order.

        It is called by the store's worker, which waits for it, or with ``worker=False`` by whoever
        finalizes. What it raises is kept as ``worker_failure``, or raised there. What is given
        back, called, takes it out.
        """
        self.check_usable()
        self._core.listeners.add(self._have_told)
        return self._core.announcer.add(callback)

    def _have_told(self) -> None:
        """Let the worker tell of new segments, if there is one; called at each change."""
        announcer = self._core.announcer
        if announcer.has_news and self._worker is not None:
            with contextlib.suppress(ClosedError):  # It ends: nobody waits for news any more.
                self._worker.post(announcer)

    def _tell(self) -> None:
        """Tell of new segments here, if there is no worker for it."""
        announcer = self._core.announcer
        if announcer.has_news and self._worker is None:
            announcer.run()

    # maintain ----------------------------------------------------------------------------------

    def maintain(self) -> int:
        """Do one tick: sync what waits, finalize what is old, delete what everybody has.

        Gives the number of segments deleted. The store's own worker sees to the same, unless it was
        opened with ``worker=False``.
        """
        deleted = self._tick(maintenance.finalize_if_due)
        self._core.outgoing.tell_rest()
        return deleted

    def tick(self) -> None:
        """Do the same, but leave the writing of a segment to who does that; the worker calls it."""
        self._tick(self._hand_over)

    def _hand_over(self, core: Core) -> None:
        if maintenance.seal_if_due(core) and not (self._scribe and self._scribe.ask()):
            maintenance.finalize_if_due(core)

    def _tick(self, finalize: Callable[[Core], object]) -> int:
        self.check_usable()
        # Outside the lock: appends go on while the log syncs.
        write_waiting(self._core)
        self._commit.sync_all()
        self._commit.settle()
        with self._core.events.telling(), self._core.lock:
            self.check_state()
            deleted = maintenance.tick(self._core, finalize=finalize)
        self._tell()
        return deleted

    # close -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finalize, make acks durable, and let go of everything; a second call does nothing.

        If the disk refuses, the error is raised after everything was let go of; what the WAL holds
        comes back with the next opening.
        """
        if self._closed or self.inherited:
            return
        self._core.refuse_nested()
        sealed.refuse_writer(self._core)
        self._core.outgoing.refuse_writer(self._core.log)
        if self._worker is not None:
            self._worker.stop()
        if self._scribe is not None:
            self._scribe.stop()
        try:
            self._close()
        finally:
            self._commit.settle()  # Without the lock: those as well who call what is not ours.

    def _close(self) -> None:
        core = self._core
        with core.events.telling(), core.lock:
            if self.closed:
                return  # Another thread was faster.
            self._commit.close()
            self._closed = True
            try:
                maintenance.shut(core, sync_log=self._sync_log_to_close)
            finally:
                self._commit.end()
                core.announce()
                core.held.release()
                if self._let_go is not None:
                    self._let_go()
                core.events.info("store.closed")

    def _sync_log_to_close(self, _: Core) -> None:
        self._commit.sync_all(as_closer=True)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def inherited(self) -> bool:
        """Whether this is the copy of a store that a forked child has."""
        return self._core.inherited

    # look --------------------------------------------------------------------------------------

    @property
    def worker(self) -> Worker | None:
        """The store's one thread, which the asyncio face posts to; None with ``worker=False``."""
        return self._worker

    @property
    def worker_failure(self) -> BaseException | None:
        """What the worker's last tick or the last segment raised; each tick tries again."""
        if self._worker is None:
            return None
        return self._worker.failure or self._core.finalize_failure

    def __enter__(self) -> Self:
        """Give the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def __reduce__(self) -> str:
        """Refuse to be pickled: a store belongs to the process that opened it."""
        raise TypeError("a Store cannot be pickled; open the store where it is used")

    def __repr__(self) -> str:
        """Say which store it is and whether it is open."""
        state = "closed" if self._closed else "open"
        return f"<Store {self.path!r} core {self._core.number}, {state}>"
