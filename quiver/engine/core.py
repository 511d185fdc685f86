"""Everything that one per-core writer holds while it is open, and the few acts they all need.

The parts know nothing of each other; the functions of this room, one module per act, move data
between them. All of them are called with ``Core.lock`` held, by one thread at a time. Those that
write a segment let go of it for as long as that takes (``Core.unlocked``), and whoever called them
has to look at everything anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from quiver.acks import AckLog, Floor
from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk, Lock
from quiver.engine import nested
from quiver.engine.ahead import Preparation
from quiver.engine.announcer import Announcer
from quiver.engine.budget import Budget
from quiver.engine.desk import Outlet
from quiver.engine.early import EarlyAcks
from quiver.engine.encoding import Encoder
from quiver.engine.listeners import Listeners
from quiver.engine.numbers import core_folder, core_numbers
from quiver.engine.outgoing import Outgoing
from quiver.engine.pace import Pace
from quiver.engine.progress import CoreProgress
from quiver.engine.readers import Readers
from quiver.engine.reserve import Reserve
from quiver.errors import CapacityError, ClosedError, DamageError, PoisonedError, QuiverError
from quiver.events import Events
from quiver.manifest import StoreManifest
from quiver.metrics import Metrics
from quiver.payload import SEQ_MAX
from quiver.progress import Table
from quiver.retention import Ages
from quiver.segment import Catalog, OpenSegment, SegmentInfo
from quiver.subscriber import Claim, Registry
from quiver.timeline import Saved, Times
from quiver.wal import Log, Place

__all__ = ["Core", "RecoveryReport", "Sealed", "core_folder", "core_numbers", "covered_place"]


def covered_place(catalog: Catalog) -> Place | None:
    """Give the place in the WAL up to which segments hold everything; None if none says."""
    if catalog.newest_seq is None:
        return None
    newest = catalog.get(catalog.newest_seq)
    if newest.wal_generation is None or newest.wal_offset is None:
        return None
    return Place(newest.wal_generation, newest.wal_offset)


def _acquire(lock: threading.RLock) -> None:
    """Take a lock, whatever signals strike meanwhile; the first one is raised then."""
    struck: BaseException | None = None
    while True:
        try:
            lock.acquire()
            break
        except BaseException as error:  # noqa: BLE001 Raised below, with the lock held.
            struck = struck or error
            if nested.is_mine(lock):
                break  # It struck behind the taking: once more would be once too often.
    if struck is not None:
        raise struck


@dataclass(slots=True)
class RecoveryReport:
    """What opening the store found and did."""

    replayed_bundles: int = 0
    """Bundles brought back from the WAL: they were in no segment yet."""
    skipped_bundles: int = 0
    """Bundles in the WAL that a segment held already."""
    lost_wal_seqs: tuple[int, int] = (0, 0)
    """Numbers, half-open, of which damage at the end of the log had some; given out never again."""
    torn_tail: DamageError | None = None
    """What a crash left behind the last entry; it was cut off."""
    rebuilt_segments: int = 0
    """Damaged segments that were written anew, whole, from what the log still had of them."""
    damage: list[DamageError] = field(default_factory=list)
    """Everything damaged that was found; copies are in quarantine."""


@dataclass(slots=True)
class Sealed:
    """An open segment that nobody adds to any more, until it is a file."""

    content: OpenSegment
    segment_seq: int
    last_wal_seq: int
    """The last number that its segment covers."""
    end: Place
    """The place in the WAL behind its last bundle."""
    ahead: Preparation | None = None
    """What was done for it while it was open."""
    filled_ns: int = 0
    """How long it was open before somebody waited for it to be sealed."""
    progress: Table = field(default_factory=Table)
    """How far sources were read with its bundles."""


@dataclass(slots=True)
class Core:
    """The open parts of one core directory."""

    disk: Disk
    folder: str
    number: int
    manifest: StoreManifest
    config: Config
    clock: Clock
    held: Lock
    catalog: Catalog
    acks: AckLog
    registry: Registry
    open_segment: OpenSegment
    metrics: Metrics
    next_segment_seq: int
    next_wal_seq: int
    covered_wal_seq: int
    """Highest wal_seq that a durable segment holds or held; -1 if there was none."""
    durable_seq: int = -1
    """Highest wal_seq up to which the WAL is known to be durable."""
    log: Log = field(init=False)
    """The WAL; there only once its replay is over."""
    outgoing: Outgoing = field(default_factory=Outgoing)
    """Entries that were taken and are not in the WAL yet."""
    open_end: Place = field(default=Place(0, 0))
    """The place in the WAL behind the last bundle of the open segment, once all is settled."""
    sealed: Sealed | None = None
    """What becomes a segment next; in memory and in the WAL until it is one."""
    ahead: Preparation | None = None
    """What was done for the open segment so far, if anything was."""
    early: EarlyAcks = field(default_factory=EarlyAcks)
    """What subscribers have of what is in no segment yet."""
    newest: SegmentInfo | None = None
    """What became of the last that was sealed; None if nothing in it could be decoded."""
    leading: set[int] = field(default_factory=set)
    """The thread that syncs the log, without the lock; two while one hands over to the next."""
    writer: int | None = None
    """The thread that writes what is sealed, without the lock; None if nobody does."""
    written: threading.Condition = field(init=False)
    """Told each time that a writer comes to an end, one way or the other."""
    closing: bool = False
    """Whether nothing is taken any more: the store is being closed, or was."""
    report: RecoveryReport = field(default_factory=RecoveryReport)
    lock: threading.RLock = field(default_factory=threading.RLock)
    changed: threading.Condition = field(init=False)
    owner: int = field(default_factory=os.getpid)
    change_count: int = 0
    """How often ``changed`` was told of something."""
    listeners: Listeners = field(default_factory=Listeners)
    readers: Readers = field(init=False)
    encoder: Encoder = field(init=False)
    pace: Pace = field(init=False)
    """Whether there is time to unite dictionaries."""
    damaged_segments: set[int] = field(default_factory=set)
    missing_segments: set[int] = field(default_factory=set)
    unread_counts: dict[int, int] = field(default_factory=dict)
    """How often in a row the disk refused to let a segment be read."""
    folded: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Size and time of each inbox when it was folded in: it has no more to tell."""
    refused_inboxes: dict[str, QuiverError] = field(default_factory=dict)
    subscriptions: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    """The subscriptions of this process that are open."""
    unseen: dict[str, tuple[int, int]] = field(default_factory=dict)
    """When who has no subscription here was seen last, and the monotonic time of noticing that."""
    announcer: Announcer = field(default_factory=Announcer)
    own_leases: set[str] = field(default_factory=set)
    """Subscribers of other processes that this one took over."""
    forgotten: deque[Claim] = field(default_factory=deque)
    """Claims whose handles were collected without an outcome; a deque needs no lock."""
    where_in_log: Callable[[Place], tuple[str, Place]] = field(init=False)
    """Gives the file in which a place is now, and the place there; once the replay has begun."""
    outlet: Outlet = field(init=False)
    """Where outcomes go; whoever makes a core says it."""
    times: Times = field(init=False)
    """How the times of bundles go on."""
    saved_times: Saved | None = None
    """What readers know of that; None if nothing was ever written down."""
    has_lent_times: bool = False
    """Whether the heartbeat has what a full disk did not let be written where it belongs."""
    has_begun_times: bool = False
    """Whether they know by which rule bundles are appended now."""
    budget: Budget = field(init=False)
    """How much of the cap is this core's; whoever makes a core says it."""
    reserve: Reserve | None = None
    """Room for the next segment, taken in advance; None without a cap."""
    progress: CoreProgress = field(default_factory=CoreProgress)
    """How far the sources that are followed were read."""
    ages: Ages | None = None
    """How old segments are; None if nothing is ever too old."""
    kept_segments: set[int] = field(default_factory=set)
    """Segments that the disk refused to delete since the last tick: to drop them makes no room."""
    sealed_memory_bytes: int = 0
    """How much memory the encoder had begun when the last segment was sealed."""
    had_no_room: bool = False
    """Whether the disk refused a bundle since the last tick, with nothing left to be finalized."""
    throttled: bool = False
    """Whether the last append found no room."""
    quarantine_bytes: int = 0
    aside_bytes: int = 0
    """What checkpoint, inboxes and dead letters take on the disk, as last measured."""
    acks_unsynced: bool = False
    segments_unsynced: bool = False
    """Whether a segment that was deleted may come back with a power cut."""
    floor: Floor = field(default=Floor(0, 0))
    """The last one in ack.log, durable."""
    last_end: tuple[Place, int] = (Place(0, 0), 0)
    """Where the WAL ended at the last tick, and since when."""
    covered_end: Place = field(default=Place(0, 0))
    """The place in the WAL before which segments hold everything; ``reclaim`` gives it back."""
    events: Events = field(init=False)
    """What is to be logged, by whoever lets go of the lock."""
    is_fault_told: bool = False
    fault: BaseException | None = None
    finalize_failure: QuiverError | None = None

    def __post_init__(self) -> None:
        """Tie the conditions that others sleep on to the lock."""
        self.events = Events(self.lock, store=self.disk.locate(""), core=self.number)
        self.changed = threading.Condition(self.lock)
        self.readers = Readers(self.disk, self.config.limits)
        self.encoder = Encoder(self.manifest.slots, self.config)
        self.pace = Pace(self.config.segment)
        self.times = Times(self.config.segment.time, self.number)
        self.written = threading.Condition(self.lock)

    def announce(self) -> None:
        """Wake whoever waits for a bundle, for durability, or for the end of the store."""
        self.change_count += 1
        self.changed.notify_all()
        self.listeners.call()

    @property
    def waiting(self) -> tuple[OpenSegment, ...]:
        """What is in no segment yet, oldest first: what is sealed, then what is open."""
        opened = self.open_segment
        return (opened,) if self.sealed is None else (self.sealed.content, opened)

    def path(self, *names: str) -> str:
        """Give the path of something in this core's folder."""
        return "/".join((self.folder, *names))

    @property
    def broken(self) -> BaseException | None:
        """What left the state of the disk unknown; None if it is known."""
        # There is no log before its replay is over.
        if self.fault is None and hasattr(self, "log"):
            return self.log.fault
        return self.fault

    @property
    def inherited(self) -> bool:
        """Whether this is the copy that a forked child has."""
        return os.getpid() != self.owner

    def check_process(self) -> None:
        """Raise ClosedError in a forked child; takes no lock, since the child may find it taken."""
        if self.inherited:
            raise ClosedError(
                "the store was opened in another process and came here by fork",
                hint="open stores after forking, one process each",
            )

    def refuse_nested(self) -> None:
        """Raise CapacityError in a thread that is in the middle of another call, further up."""
        is_mine = nested.is_mine  # Each append asks.
        if (
            is_mine(self.lock)
            or (hasattr(self, "log") and is_mine(self.log.turn))
            or (self.leading and threading.get_ident() in self.leading)
        ):
            raise nested.refusal()

    def check(self) -> None:
        """Raise PoisonedError if an earlier act left the state of the disk unknown."""
        broken = self.broken
        if broken is not None:
            if not self.is_fault_told:
                self.is_fault_told = True
                self.events.error("store.poisoned", error=broken)
            self.events.tell()
            raise PoisonedError(
                f"the store stopped in the middle of a write: {broken!r}",
                hint="close it and open it again: recovery finds out what survived",
            ) from broken

    def check_open(self) -> None:
        """Raise ClosedError if the store was closed while the lock was not held."""
        if self.closing:
            raise ClosedError("the store is closed", hint="quiver.open(path) opens it again")

    def check_numbers(self, count: int = 1) -> None:
        """Raise CapacityError if so many bundles more have no number that a reader would believe.

        Nobody appends so many; a number that was written by nobody's append can lead there.
        """
        if self.next_wal_seq + count - 1 > SEQ_MAX:
            error = CapacityError(
                f"the numbers of {self.folder} are used up: the next bundle is {self.next_wal_seq}",
                hint="drain the store, and append to a new one",
            )
            error.retryable = False
            raise error

    @contextmanager
    def unlocked(self) -> Iterator[None]:
        """Let the other threads in while something long is done that needs none of this.

        Whatever ends it, the lock is held again behind it, as its holder relies on.
        """
        self.lock.release()
        try:
            yield
        finally:
            _acquire(self.lock)

    def whole(self) -> _Whole:
        """Stop the store if what is inside is broken off by anything but a QuiverError.

        A signal or a lack of memory may strike between an act and its bookkeeping, and only a
        recovery can tell how far it came. What the disk refuses, whoever asked for it undoes.
        """
        return _Whole(self)

    def break_off(self, error: BaseException) -> None:
        """Stop the store: an act was broken off, and only a recovery tells how far it came."""
        self.fault = self.fault or error


class _Whole:
    """What ``Core.whole`` gives. Each write enters one, so it is no generator."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and not isinstance(error, QuiverError):
            self._core.break_off(error)
