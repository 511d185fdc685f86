"""Partitions into a store: each bundle once, whole, whatever ends the process that reads them.

::

    cluster --- cursor, by time --> bundle + how far that is --> one entry of the store's log

Each partition is a source of its own to the store, so that one process may read all of them, or
several some each, into a core of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from quiver.chain.mirroring.place import decode_place, encode_place, identity, source_name
from quiver.chain.reading import ChainMessage, ChainPosition
from quiver.clock import Clock, SystemClock
from quiver.engine import Follower, Receipt, Store
from quiver.errors import (
    CapacityError,
    ConfigError,
    OutOfSequenceError,
    RemoteError,
    SourceError,
    WaitTimeoutError,
)

if TYPE_CHECKING:
    from quiver.chain.cluster import Cluster

__all__ = ["Mirror", "Mirrored"]

_LOOK_SECONDS: Final = 0.25
"""So long a step waits for something to read."""
_LIST_NS: Final = 5_000_000_000
"""Where no partition is named it is looked so often whether there are new ones."""
_UNSYNCED_MAX: Final = 64
"""Bundles that are on their way to the disk at a time."""
_RETRIES: Final = 10
_GAPS: Final = ("error", "tell")


@dataclass(slots=True)
class Mirrored:
    """What one run came to."""

    bundle_count: int = 0
    row_count: int = 0
    late_count: int = 0
    """Bundles that are earlier than one before them, of another partition, and got its time."""
    wal_seq_first: int | None = None
    wal_seq_last: int | None = None
    gaps: list[tuple[str, int, int]] = field(default_factory=list)
    """Partition, the number that was read last, and the one that came next."""
    positions: dict[str, ChainPosition] = field(default_factory=dict)
    """The last bundle of each partition that was appended, also by earlier runs."""


class Mirror:
    """Reads partitions of a cluster into a store. One thread runs it; a context manager.

    Without ``partitions`` it is all of them, new ones too. Bundles keep their times, for which the
    store is to be opened with ``segment.time`` ``caller``; with ``keeps_times=False`` they get the
    store's. ``gap`` says what becomes of bundles that are gone before they were read, purged or
    abandoned: ``"error"`` or ``"tell"``. Raises LockedError once it begins to read a partition that
    somebody else reads into this store, and DamagedEntry if it is lost how far, unless
    ``begin_anew`` accepts that.
    """

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        partitions: Sequence[str] = (),
        *,
        keeps_times: bool = True,
        gap: str = "error",
        begin_anew: bool = False,
        idle_seconds: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is asked yet; the store and the cluster stay the caller's."""
        if gap not in _GAPS:
            raise ConfigError(f"gap: {gap!r} is unknown", hint=" or ".join(_GAPS))
        self.mirrored = Mirrored()
        self._store = store
        self._cluster = cluster
        self._wanted = tuple(partitions)
        self._keeps_times = keeps_times
        self._fails_at_gaps = gap == "error"
        self._begin_anew = begin_anew
        self._idle_seconds = idle_seconds
        self._clock = clock or SystemClock()
        self._identity = ""
        self._followers: dict[str, Follower] = {}
        self._unsynced: list[Receipt] = []
        self._failures = 0
        """In a row, with nothing between them that went well."""
        self._is_stale = False
        self._listed_ns = 0
        self._stopping = False

    def stop(self) -> None:
        """Let ``run`` come to an end; from any thread, or a signal handler."""
        self._stopping = True

    def run(
        self, *, once: bool = False, watch: Callable[[int], object] = lambda _: None
    ) -> Mirrored:
        """Append what comes until ``stop``; all of it is durable, and in segments, at the end.

        With ``once`` it is what is there, of all partitions. Nodes that are lost are waited for, or
        others asked. ``watch`` is told the rows of each bundle. Raises what ``ChainCursor.next``
        and ``Store.append`` do; what was appended before stays, and is gone on from.
        """
        if self._is_stale:
            self._go_back()
        self._is_stale = True  # What is in, and was not noted, would be appended once more.
        while not self._stopping:
            try:
                if self._pass(once, watch):
                    break
            except RemoteError as error:  # Of the cluster: a store of this machine has none.
                self._failures += 1
                if once or not error.retryable or self._failures > _RETRIES:
                    raise
                self._settle()
                self._clock.pause(_LOOK_SECONDS)
        self._settle()
        self._store.finalize()
        self._is_stale = False
        return self.mirrored

    def _go_back(self) -> None:
        """Go on behind what the store has: also where an append was in, and nobody heard of it."""
        for partition, follower in self._followers.items():
            states = self._store.progress(follower.source)
            if partition in states:
                self.mirrored.positions[partition] = decode_place(states[partition])

    def _pass(self, once: bool, watch: Callable[[int], object]) -> bool:  # noqa: FBT001
        """Read with one cursor; says whether all is read that there will be."""
        names = self._wanted or tuple(self._cluster.partitions())
        self._listed_ns = self._clock.monotonic_ns()
        for name in names:
            self._follow(name)
        if not names:
            self._clock.pause(0.0 if once else _LOOK_SECONDS)
            return once
        positions = self.mirrored.positions
        with self._cluster.cursor(
            names,
            live=not once,
            position={name: positions[name] for name in names if name in positions},
            idle_seconds=self._idle_seconds,
        ) as cursor:
            while not self._stopping:
                try:
                    message = cursor.next(_LOOK_SECONDS)
                except WaitTimeoutError:
                    self._settle()
                    message = None
                self._failures = 0  # It was looked, whether anything came or not.
                if message is not None:
                    self._take(message, watch)
                elif cursor.is_at_end:
                    return True
                if not (once or self._wanted) and self._has_more(names):
                    return False
        return False

    def _has_more(self, names: Sequence[str]) -> bool:
        """Whether there are partitions that were not there; looked up now and then."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._listed_ns < _LIST_NS:
            return False
        self._listed_ns = now_ns
        return not set(self._cluster.partitions()) <= set(names)

    def _follow(self, partition: str) -> None:
        if partition in self._followers:
            return
        self._identity = self._identity or identity(self._cluster.metadata, self._clock)
        name = source_name(self._identity, partition)
        follower = self._store.follow(name, begin_anew=self._begin_anew)
        self._followers[partition] = follower
        if partition in follower.states:
            self.mirrored.positions[partition] = decode_place(follower.states[partition])

    def _take(self, message: ChainMessage, watch: Callable[[int], object]) -> None:
        self._check_gap(message)
        at = ChainPosition(message.time_ns, message.wal_seq)
        receipt = self._append(message, at)
        if receipt is None:
            return
        done = self.mirrored
        done.positions[message.partition] = at
        done.bundle_count += 1
        rows = sum(batch.num_rows for batch in message.bundle.values())
        done.row_count += rows
        done.wal_seq_first = receipt.wal_seq if done.wal_seq_first is None else done.wal_seq_first
        done.wal_seq_last = receipt.wal_seq
        self._unsynced.append(receipt)
        watch(rows)
        if len(self._unsynced) >= _UNSYNCED_MAX:
            self._settle()

    def _check_gap(self, message: ChainMessage) -> None:
        """Raise, or tell, if it is not the next; behind an abandoned block numbers come again."""
        before = self.mirrored.positions.get(message.partition)
        if before is None:
            return
        if message.wal_seq == before.wal_seq + 1 and not message.is_behind_abandoned:
            return
        if self._fails_at_gaps:
            what = "abandoned" if message.is_behind_abandoned else "purged or abandoned"
            raise SourceError(
                f"{message.partition}: bundle {message.wal_seq} came behind {before.wal_seq}",
                split=message.partition,
                hint=f'what was between is gone, {what}; gap="tell" goes on behind',
            )
        self.mirrored.gaps.append((message.partition, before.wal_seq, message.wal_seq))

    def _append(self, message: ChainMessage, at: ChainPosition) -> Receipt | None:
        """Append a bundle, in a full store once there is room; None if it was stopped before."""
        partition = message.partition
        progress = self._followers[partition].at({partition: encode_place(at)})
        time = message.time_ns if self._keeps_times else None
        while True:
            try:
                return self._store.append(
                    message.bundle,
                    wait=False,
                    timeout=_LOOK_SECONDS,
                    progress=progress,
                    time=time,
                )
            except OutOfSequenceError as error:
                time = error.last
                self.mirrored.late_count += 1
            except CapacityError as error:
                self._settle()
                if not error.retryable:
                    raise
                if self._stopping:
                    return None

    def _settle(self) -> None:
        """Wait until what was appended is durable."""
        if self._unsynced:
            self._unsynced[-1].wait()  # All before it are durable then, too.
            self._unsynced.clear()

    def close(self) -> None:
        """Let others read these partitions into the store; a second call does nothing."""
        while self._followers:
            _, follower = self._followers.popitem()
            follower.close()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
