"""Follow a source: who reads it for a store, how far it was read, and that nobody else does.

One follower at a time has a source, whatever core it appends to: it holds a lock that goes with its
process. So the newest state of a split is that of the last follower, and each takes an epoch above
all that any core knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from quiver.disk import Disk, Lock
from quiver.engine.core import Core
from quiver.engine.progress import Progress
from quiver.engine.progress_beside import (
    FOLLOWERS_NAME,
    Known,
    accepted_path,
    check_losses,
    digest_of,
    read_all,
)
from quiver.engine.saving import save_progress
from quiver.errors import ClosedError, InputError, LockedError, PoisonedError
from quiver.progress import EPOCH_MAX, Loss, Note, Row, encode_note, write_accepted

__all__ = ["FOLLOWERS_NAME", "Follower", "FollowerDesk"]


class Follower:
    """Whoever reads a source for a store. Made by ``Store.follow``; a context manager.

    ``states`` is the state of each split as of the last durable bundle when this was made.
    """

    def __init__(
        self,
        core: Core,
        lock: Lock,
        source: str,
        *,
        rows: Mapping[str, Row],
        flush: Callable[[], object],
    ) -> None:
        """Take over the lock of the source; not for others."""
        self.source = source
        self.epoch = max((row.epoch for row in rows.values()), default=0) + 1
        self.states: Mapping[str, str] = {
            split: row.state for split, row in sorted(rows.items()) if row.state is not None
        }
        self._core = core
        self._lock = lock
        self._flush = flush
        self._gone = False

    def at(self, states: Mapping[str, str | None]) -> Progress:
        """Say how far the source was read: the state of each split that has moved on.

        A state is any text; None forgets the split. Give it to ``append`` with the bundle that was
        read up to there: both become durable together, or neither. Raises InputError for texts that
        are empty or too long.
        """
        states = dict(states)
        note = encode_note(Note(*self._who, states))
        return Progress(self.source, self.epoch, states, note, self)

    @property
    def _who(self) -> tuple[str, int]:
        return self.source, self.epoch

    def let_go(self) -> None:
        """Let others follow the source, with the core's lock held."""
        if not self._gone:
            self._gone = True
            self._core.progress.followers.pop(self.source, None)
            self._lock.release()

    def close(self) -> None:
        """Make durable what was appended, and let others follow the source.

        If that fails it stays this one's, since what is on its way may still get there, and the
        call may be repeated. A second call does nothing, nor does one in a forked child.
        """
        if self._core.inherited:  # Where the lock may be taken for ever.
            return
        with self._core.lock:
            if self._gone:
                return
            self._core.progress.followers.pop(self.source, None)  # Nothing more comes.
        # A store that gave up makes nothing durable any more.
        with suppress(PoisonedError, ClosedError):
            self._flush()
        with self._core.lock:
            self.let_go()

    def __enter__(self) -> Self:
        """Give the follower itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let others follow the source."""
        self.close()

    def __repr__(self) -> str:
        """Say what is followed."""
        return f"<Follower {self.source!r} epoch {self.epoch}>"


class FollowerDesk(ABC):
    """The side of a store that those see who read sources for it."""

    _core: Core

    @abstractmethod
    def check_usable(self) -> None:
        """Raise unless the store is open, in this process, and knows the state of its disk."""

    @abstractmethod
    def check_state(self) -> None:
        """Do the same, but do not look at the process or the thread."""

    @abstractmethod
    def flush(self) -> None:
        """Return once every bundle appended so far survives a power cut."""

    def follow(self, source: str, *, begin_anew: bool = False) -> Follower:
        """Begin to read a source for this store, and find out where to go on.

        ``source`` is any name; what was read under it before, by whatever core, is in ``states`` of
        the follower. Raises LockedError if somebody follows it, in any process, and DamagedEntry if
        it is lost how far it was read: ``begin_anew`` accepts that, once for each loss, and goes on
        with what is known; of all other splits the rows come again.
        """
        self.check_usable()
        core = self._core
        encode_note(Note(source, 1, {"-": None}))  # InputError for a name that cannot be.
        lock = _lock(core.disk, source)
        try:
            known = self._latest()
            if begin_anew:
                self._accept(source, known.losses)
            check_losses(core.disk, source, known.losses)
            rows = known.table.rows(source)
            if max((row.epoch for row in rows.values()), default=0) >= EPOCH_MAX:
                raise InputError(f"no epoch is left for source {source!r}")
            with core.lock:
                self.check_state()
                follower = Follower(core, lock, source, rows=rows, flush=self.flush)
                core.progress.followers[source] = follower
        except BaseException:
            lock.release()
            raise
        return follower

    def progress(self, source: str) -> dict[str, str]:
        """Give the state of each split of a source as of the last bundle, which is durable then.

        It flushes first, and looks into all cores of the store. A source that was never followed
        has no splits. Raises DamagedEntry if that is lost; see ``follow``.
        """
        self.check_usable()
        known = self._latest()
        check_losses(self._core.disk, source, known.losses)
        return known.table.states(source)

    def _accept(self, source: str, losses: Sequence[Loss]) -> None:
        """Write down that these losses do not keep a source from being followed."""
        core = self._core
        if losses:
            with core.lock:
                save_progress(core)  # A loss that is not written down would be another one later.
            names = {loss.name for loss in losses}
            core.disk.sync_dir("")  # The folder of it may have been made just now.
            write_accepted(core.disk, accepted_path(source), source, names=names)

    def _latest(self) -> Known:
        core = self._core
        with core.lock:
            self.check_state()
            sealed = None if core.sealed is None else core.sealed.progress
            found = core.progress.latest(sealed)
            own = core.progress.loss
        # Behind the look: what is appended meanwhile is not synced, and not told of.
        self.flush()
        beside = read_all(core.disk, but=core.number)
        found.take_all(beside.table.notes())
        return Known(found, beside.losses if own is None else [own, *beside.losses])


def _lock(disk: Disk, source: str) -> Lock:
    disk.make_dir(FOLLOWERS_NAME)
    try:
        return disk.lock(f"{FOLLOWERS_NAME}/{digest_of(source)}.lock")
    except LockedError as error:
        raise LockedError(
            f"source {source!r} is followed already, by process {error.pid or 'unknown'}",
            pid=error.pid,
            hint="one at a time reads a source for a store: end that one first",
        ) from error
