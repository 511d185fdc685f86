"""The corridor: the only room that knows more than one station.

================  =====================================================================
``store``         ``Store``, what users hold
``core``          the open parts of one core directory
``cores``         which of them a writer gets; visits
``numbers``       their folders
``adoption``      what the writer of a core left behind, brought to an end
``neighbours``    the cores that nobody writes, as a worker sees them
``heirs``         subscribers of the other cores, for a new one
``budget``        how much of the cap is a core's
``recovery``      open one, whatever way the last writer ended
``rebuild``       segments whose end is damaged, from the log
``stored``        recovered bundles, read again before they become a segment
``ingest``        append
``following``     who reads a source for the store, and from where
``progress``      how far sources were read with the bundles of a core
``saving``        the same on the disk, ``progress_beside`` as others see it
``holes``         which of them may stay where the log lost some before them
``sealed``        finalize: seal what is open, write it without the lock, register it
``scribe``        the thread that writes what an append has filled, and looks ahead
``pace``          whether there is time to unite dictionaries
``manners``       when who writes a segment lets appends go on
``ahead``         what is done for a segment while it is open
``commit``        one sync for many: who leads, who follows, who is told
``delivery``      claim, ack, nack, defer
``outcomes``      ack.log to and from the registry
``space``         evict, drop, refuse: what retention decided
``maintenance``   one tick of upkeep, and the last
``facts``         what a store says of itself
``tally``         what deletion adds to the counters
``stats``         what there is of each station, as numbers
``standing``      where subscribers stand, read from outside
``salvage``       make a damaged store sound, losing what is damaged and no more
``mending``       one damaged segment
``restore``       quiver.json
``migration``     another slot table
``inventory``     what a folder of the Rust Quiver holds
``takeover``      all of that, in a new store
``worker``        the thread that ticks
``threads``       a thread begins, or the system has none
================  =====================================================================
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping

from quiver.clock import Clock, SystemClock
from quiver.config_file import ConfigLike, config_of
from quiver.disk import Disk, LocalDisk
from quiver.engine.adoption import Adopted, adopt_all
from quiver.engine.core import Core, RecoveryReport
from quiver.engine.cores import check_core, open_any
from quiver.engine.following import Follower
from quiver.engine.info import StoreInfo
from quiver.engine.maintenance import let_go
from quiver.engine.progress import Progress
from quiver.engine.progress_beside import check_losses, read_all
from quiver.engine.receipt import Receipt
from quiver.engine.recovery import RecoveryProgress
from quiver.engine.stats import CoreStats, SubscriberStats
from quiver.engine.store import Store
from quiver.engine.subscription import Subscription
from quiver.engine.worker import Worker
from quiver.slots import Slot, SlotTable

__all__ = [
    "Adopted",
    "CoreStats",
    "Follower",
    "Progress",
    "Receipt",
    "RecoveryProgress",
    "RecoveryReport",
    "Store",
    "StoreInfo",
    "SubscriberStats",
    "Subscription",
    "adopt",
    "open",
    "read_progress",
]


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    slots: SlotTable | Mapping[str, int] | Iterable[str | Slot] | None = None,
    config: ConfigLike = None,
    core: int | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
    worker: bool = True,
    progress: Callable[[RecoveryProgress], None] | None = None,
) -> Store:
    """Open the store in folder ``path`` for writing, recover it, and give it.

    ``slots`` names the payloads of a bundle, in order; needed to create a store, and checked if it
    exists. ``config`` is a Config, a mapping of its sections, or the path of a file with them, of
    which ``path`` counts for nothing here. One process may write a core at a time: this takes the
    first core that nobody writes, and makes another one if there is none, so that N writers of one
    store get N cores; ``core`` chooses one. ``Store.subscribe`` gives what is in this core,
    ``quiver.subscribe`` and ``quiver.scan`` what is in all of them.

    ``disk`` and ``clock`` replace the operating system's, for tests; with
    ``worker=False`` the store has no thread and the caller calls ``maintain``. ``progress`` is
    called during a long recovery, from this thread.

    Raises MissingError if there is no store and no ``slots``, VersionError for other slots or a
    newer format, LockedError if the core, or each that there can be, is being written, InputError
    for unusable arguments, CapacityError if there is no room or no thread to be had, and
    DamageError if something is damaged and ``recovery.policy`` is ``strict``.
    """
    check_core(core)
    table = None if slots is None else SlotTable.of(slots)
    settings = config_of(config)
    if clock is None:
        clock = SystemClock()
    with contextlib.ExitStack() as undo:
        # First: where no thread is to be had, nothing is locked and no core is made.
        thread = Worker() if worker else None
        if thread is not None:
            undo.callback(thread.stop)
        close = None
        if disk is None:
            disk = local = LocalDisk(path, create=table is not None)
            close = local.close
            undo.callback(close)
        opened = open_any(disk, core, slots=table, config=settings, clock=clock, watch=progress)
        undo.callback(_abandon, opened, thread)
        store = Store(opened, worker=thread, let_go=close)
        undo.pop_all()
    return _announced(store, opened)


def _abandon(core: Core, thread: Worker | None) -> None:
    """Let go of a core that no store was made of; its worker may have begun."""
    if thread is not None:
        thread.stop()
    let_go(core)
    core.held.release()


def _announced(store: Store, core: Core) -> Store:
    """Log what the recovery found, and that the store is open."""
    report = core.report
    core.events.info(
        "store.opened",
        durability=store.durability,
        segment_count=len(core.catalog),
        subscriber_count=len(core.registry.ids),
        replayed_bundle_count=report.replayed_bundles,
        skipped_bundle_count=report.skipped_bundles,
        damage_count=len(report.damage),
    )
    core.events.tell()
    return store


def adopt(
    path: str | os.PathLike[str],
    *,
    config: ConfigLike | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> tuple[Adopted, ...]:
    """Adopt each core of the store in ``path`` that nobody writes, and leave it to the next writer.

    What is in its log becomes segments, so that subscribers and scans have it; what subscribers in
    other processes did is folded in, and what all have is deleted. Cores that are being written are
    passed over. An open store does the same for its neighbours, some seconds after their end.

    Raises MissingError if there is no store, and DamageError if something is damaged and
    ``recovery.policy`` is ``strict``.
    """
    settings, clock = config_of(config), clock or SystemClock()
    if disk is not None:
        return adopt_all(disk, config=settings, clock=clock)
    local = LocalDisk(path)
    try:
        return adopt_all(local, config=settings, clock=clock)
    finally:
        local.close()


def read_progress(path: str | os.PathLike[str], source: str) -> dict[str, str]:
    """Give the state of each split of a source as of the last bundle of any core, durable by then.

    Takes no lock; for whoever has the store open, ``Store.progress`` is the same. Raises
    DamagedEntry if that is lost; see ``Store.follow``.
    """
    disk = LocalDisk(path)
    try:
        known = read_all(disk)
        check_losses(disk, source, known.losses)
        return known.table.states(source)
    finally:
        disk.close()
