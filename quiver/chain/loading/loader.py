"""Writes one partition: bundles become entries, and entries blocks that are on all locations."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from quiver.chain.loading.drafts import Draft, Drafts
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.happenings import Wanted
from quiver.chain.loading.outbox import Waiting
from quiver.chain.loading.rules import LoaderRules
from quiver.chain.loading.sending import SendingTurn, amid
from quiver.chain.loading.tasks import Surroundings, Tasks
from quiver.config import Config
from quiver.disk import fresh_name, process_id
from quiver.errors import (
    CapacityError,
    ClosedError,
    InputError,
    OutOfSequenceError,
    WaitTimeoutError,
)
from quiver.slots import SlotTable
from quiver.units import parse_duration

if TYPE_CHECKING:
    from quiver.chain.record import Record

__all__ = ["LoadReceipt", "Loader"]

_TIME_MAX: Final = (1 << 63) - 1
_LOOK_SECONDS: Final = 0.25


class LoadReceipt:
    """One bundle that was taken, and ways to learn that all locations have it."""

    __slots__ = ("_loader", "time_ns", "wal_seq")

    def __init__(self, loader: Loader, wal_seq: int, time_ns: int) -> None:
        self._loader = loader
        self.wal_seq = wal_seq
        self.time_ns = time_ns

    @property
    def is_replicated(self) -> bool:
        """Whether all locations have synced it, so that readers see it; never blocks.

        Once true it stays so. False says only that nobody knows yet.
        """
        return self._loader.acked_seq >= self.wal_seq

    def wait(self, timeout: float | str | None = None) -> int:
        """Return the wal_seq once all locations have it; may be repeated.

        Raises WaitTimeoutError, and what ended the loader: then it is not known what became of it.
        """
        self._loader.wait_acked(self.wal_seq, timeout)
        return self.wal_seq

    def __repr__(self) -> str:
        """Name the bundle."""
        return f"LoadReceipt(wal_seq={self.wal_seq})"


class Loader:
    """The one writer of a partition. Safe for many threads.

    Bundles are numbered and timed in the order in which they are sent, each exactly once, whatever
    node of the chain is lost meanwhile.
    """

    def __init__(
        self,
        around: Surroundings,
        partition: str,
        slots: SlotTable,
        *,
        rules: LoaderRules | None = None,
        config: Config | None = None,
    ) -> None:
        """Begin to take the partition; ``wait_open`` says when that is done, ``send`` waits too."""
        self._process = process_id()
        self._rules = rules or LoaderRules()
        self._partition = partition
        self._clock = around.clock
        self._drafts = Drafts(slots, config or Config())
        self.by: Final = fresh_name()
        """Its name in the record; nobody else ever has it."""
        self._driver = Driver(partition, self._rules, by=self.by, wake=self._wake)
        self._turn = SendingTurn(partition)
        self._seq = -1
        self._time_ns: int | None = None
        self._adding: Waiting | None = None
        """What is being added; left behind if the caller was interrupted there."""
        self._lender = 0
        """The thread that does the worker's work, who can do none of it then."""
        self._driver.tasks = Tasks(
            around, partition, slots, post=self._driver.post, hear=self._driver.hear
        )
        self._worker = around.workers.start(f"quiver loader {partition}", self._driver.turn)
        try:
            self._driver.tasks.begin(self._rules.rf, is_rising=self._rules.is_rising)
        except BaseException:  # There is no thread for it.
            self._worker.end()
            raise

    def _wake(self) -> None:
        self._worker.wake()

    # sending -----------------------------------------------------------------------------------

    def send(
        self,
        bundle: Mapping[str, Any],
        *,
        time_ns: int | None = None,
        timeout: float | str | None = None,
    ) -> LoadReceipt:
        """Take a bundle; it is on its way when this returns, and safe when the receipt says so.

        ``time_ns`` is the bundle's time where the caller gives times; one that decreases raises
        OutOfSequenceError, and nothing is taken. While too much waits to be acknowledged, or
        another thread waits for that, this waits, up to ``timeout``: CapacityError then. So does
        who calls it out of the midst of itself, as a signal handler may. An exception of a handler,
        such as KeyboardInterrupt, may come before the bundle was taken or behind that.
        """
        self._check_process()
        draft = self._drafts.draft(bundle)

        def add() -> LoadReceipt:
            if self._adding is not None:
                self._mend()
            self._wait_room(timeout)
            receipt = self._add(draft, time_ns)
            try:
                self._lender = threading.get_ident()
                if not self._worker.lend(self._driver.send_alone):
                    self._wake()
            finally:
                self._lender = 0
            return receipt

        return self._turn.run(add, timeout)

    def _add(self, draft: Draft, time_ns: int | None) -> LoadReceipt:
        """Give a bundle its number, and let it wait to be sent."""
        given = self._timed(time_ns)
        wal_seq = self._seq + 1
        waiting = self._adding = Waiting(wal_seq, given, draft.entry(wal_seq, given))
        with self._driver.lock:
            self._driver.outbox.add(waiting)
        self._seq, self._time_ns, self._adding = wal_seq, given, None
        return LoadReceipt(self, wal_seq, given)

    def _mend(self) -> None:
        """Finish what an interrupt left undone: a number is never given twice."""
        adding = self._adding
        if adding is not None:
            with self._driver.lock:
                is_added = self._driver.outbox.mend(adding)
            if is_added:
                self._seq, self._time_ns = adding.wal_seq, adding.time_ns
            self._adding = None

    def _wait_room(self, timeout: float | str | None) -> None:
        driver = self._driver

        def has_room() -> bool:
            self._check()
            return driver.record is not None and (
                driver.outbox.kept_bytes < self._rules.buffer_bytes
            )

        try:
            if not has_room():
                self._wait(has_room, timeout)
        except WaitTimeoutError as error:
            raise CapacityError(
                f"{driver.outbox.kept_bytes:,} bytes of {self._partition} wait to be acknowledged"
                f"{self._trouble()}",
                hint="its chain takes nothing: wait, or look at its nodes",
            ) from error
        if self._time_ns is None and driver.record is not None:
            self._seq, self._time_ns = driver.record.last_seq, driver.record.end

    def _timed(self, given: int | None) -> int:
        """Give the time of the next bundle: later than the last one, or as the caller says."""
        last = -1 if self._time_ns is None else max(self._time_ns, -1)
        if self._rules.is_rising:
            if given is not None:
                raise InputError(
                    "the loader gives times here", hint="is_rising=False leaves them to the caller"
                )
            return max(self._clock.wall_ns(), last + 1)
        if given is None:
            return max(self._clock.wall_ns(), last)
        if not isinstance(given, int) or given > _TIME_MAX:
            raise InputError(f"{given!r:.80} is no time in nanoseconds since 1970")
        if given < max(last, 0):
            raise OutOfSequenceError(
                f"{self._partition} is at {last}, and a bundle of {given} came",
                partition=self._partition,
                last=last,
                given=given,
                hint="times of a partition may be equal, and never go back",
            )
        return given

    # waiting -----------------------------------------------------------------------------------

    @property
    def acked_seq(self) -> int:
        """All up to this number are on all locations, synced; never goes back."""
        return self._driver.outbox.acked_seq

    @property
    def record(self) -> Record | None:
        """The record as this loader put it last; None before it has the partition."""
        return self._driver.record

    def wait_open(self, timeout: float | str | None = None) -> None:
        """Return once the partition is this loader's, and its block can be written.

        Raises LockedError if somebody else writes it, and WaitTimeoutError.
        """

        def is_open() -> bool:
            self._check()
            return self._driver.record is not None

        self._wait(is_open, timeout)

    def flush(self, timeout: float | str | None = None) -> None:
        """Return once all locations have all that was sent before; raises as a receipt does."""
        self._check_process()
        self._turn.run_if_free(self._mend)  # Whoever sends just now does it himself.
        self._wake()  # Who was interrupted behind the adding has not.
        self.wait_acked(self._seq, timeout)

    def wait_acked(self, wal_seq: int, timeout: float | str | None = None) -> None:
        """Return once all up to a number are on all locations."""
        driver = self._driver

        def is_acked() -> bool:
            if driver.outbox.acked_seq >= wal_seq:
                return True
            self._check()
            return False

        self._wait(is_acked, timeout)

    def _check_process(self) -> None:
        if process_id() != self._process:
            raise ClosedError(
                f"the loader of {self._partition} was made in another process and came here by "
                "fork",
                hint="what it was sent is the other one's; take the partition after a fork",
            )

    def _check(self) -> None:
        self._raise_fault()
        if self._driver.is_closed:
            raise ClosedError(f"the loader of {self._partition} was closed")

    def _wait(self, is_done: Callable[[], bool], timeout: float | str | None) -> None:
        seconds = None if timeout is None else parse_duration(timeout) / 1e9
        self._check_process()
        is_in_time = True
        try:
            # A condition is entered in Python: an interrupt behind that would leave the lock taken.
            with self._driver.lock:
                if self._lender == threading.get_ident():
                    is_in_time = self._wait_amid(is_done, seconds)
                else:
                    is_in_time = self._driver.changed.wait_for(is_done, seconds)
        except RuntimeError as error:  # It came while the condition had let go of the lock.
            raise error.__context__ or error from None
        if not is_in_time:
            raise WaitTimeoutError(
                f"{self._partition}: what was waited for has not happened in {timeout}"
                f"{self._trouble()}",
                hint="its chain may be taking nothing just now; ask again",
            )

    def _wait_amid(self, is_done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait out of the midst of the worker's work for what happens without him.

        Raises CapacityError if he is needed: a signal handler that waits keeps him from it.
        """
        driver, left = self._driver, math.inf if seconds is None else seconds
        while not (is_in_time := driver.changed.wait_for(is_done, min(left, _LOOK_SECONDS))):
            left -= _LOOK_SECONDS
            if left <= 0:
                break
            if driver.outbox.unsent_bytes or not driver.mail.is_empty:
                raise amid(self._partition)
        return is_in_time

    def _trouble(self) -> str:
        """Say what keeps it from writing just now, as far as that is known."""
        trouble = self._driver.trouble
        return f": {trouble.message}" if trouble is not None else ""

    # ending ------------------------------------------------------------------------------------

    def close(self, timeout: float | str | None = None) -> None:
        """Wait until all is acknowledged, seal the open block, and let the partition go."""
        self._check_process()
        if self._driver.fault is None and not self._driver.is_closed:
            self.flush(timeout)
            self.end()
            self._wait(lambda: self._driver.is_closed or self._driver.fault is not None, timeout)
        self._worker.end()
        self._raise_fault()

    def _raise_fault(self) -> None:
        """Raise why it ended; each time without the calls that it came through before."""
        if self._driver.fault is not None:
            raise self._driver.fault.with_traceback(None)

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; behind an exception abandon it, for its chain may take nothing."""
        if kind is not None:
            self.abandon()
            return
        try:
            self.close()
        except BaseException:  # Else it goes on, and has the partition, with nobody to end it.
            self.abandon()
            raise

    def end(self) -> None:
        """Ask for the open block to be sealed for good, once all in it is acknowledged."""
        self._driver.post(Wanted())

    def abandon(self) -> None:
        """Stop at once, as if the process had died: whoever comes next seals the open block.

        In a forked child nothing happens: it is the parent's.
        """
        if process_id() != self._process:
            return
        self._driver.stop()
        self._worker.end()
