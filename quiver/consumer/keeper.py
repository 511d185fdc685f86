"""The thread of a consumer: it hears of new segments, and commits what was done a while ago."""

from __future__ import annotations

import atexit
import copy
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from quiver.disk import Disk, Watch
from quiver.engine.core import core_folder, core_numbers
from quiver.engine.threads import begin_thread
from quiver.errors import ClosedError, QuiverError, SubscriberError
from quiver.events import Events
from quiver.units import SECOND

__all__ = ["Keeper"]

_LOOK_AGAIN_SECONDS: Final = 0.1
"""A thread that is no more tells nobody."""
_PATIENCE_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.25
"""What could not be looked at is looked at again then: nobody tells of it once more."""


class Kept(Protocol):
    """What is kept up."""

    @property
    def closed(self) -> bool:
        """Whether there is nothing left to keep up."""
        ...

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit."""
        ...

    def refresh(self) -> None:
        """Look for new segments."""
        ...

    def commit(self) -> None:
        """Make durable what was done."""
        ...


class Keeper:
    """A daemon thread that is asleep until a folder changes, or something waits to be committed."""

    def __init__(self, kept: Kept, disk: Disk, interval_ns: int) -> None:
        """Start; what was done is committed within ``interval_ns``. CapacityError: no thread."""
        self.failure: Exception | None = None
        self._kept = kept
        self._events = Events(store=disk.locate(""))
        self._disk = disk
        self._interval = max(interval_ns, 1) / SECOND
        self._stopped = threading.Event()
        self._is_behind = False
        self._cores = core_numbers(disk)
        self._watch = self._begin(self._cores)
        self._busy = threading.Lock()
        self._busy.acquire()
        self._thread = threading.Thread(target=self._run, name="quiver-consumer", daemon=True)
        try:
            begin_thread(self._thread)
        except BaseException:
            self._watch.close()
            raise
        _living.add(self)

    def _begin(self, numbers: Sequence[int]) -> Watch:
        cores = [core_folder(number) for number in numbers]
        folders = [f"{core}/{name}" for core in cores for name in ("segments", "acks/inbox")]
        return Watch(self._disk, ["", *folders])

    @property
    def is_current(self) -> bool:
        """Whether this is its thread."""
        return threading.current_thread() is self._thread

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Have the thread do no more, and wait for its end behind the block.

        Meanwhile it lets go of its watch, for which the system may take a fiftieth of a second.
        """
        self._stop()
        if self.is_current:
            yield
            return
        while self._thread.is_alive():
            if self._busy.acquire(timeout=_LOOK_AGAIN_SECONDS):  # It is done with what is kept.
                self._busy.release()
                break
        try:
            yield
        finally:
            self._thread.join()

    def _stop(self) -> None:
        self._stopped.set()
        self._watch.stop()

    def leave(self) -> None:
        """End the thread, which is not waited for for ever, before the interpreter ends it.

        That would be in the midst of whatever it is at, with the locks that it has.
        """
        if self._thread.is_alive():  # It is not in a forked child, whose watch is its parent's.
            self._stop()
            self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        try:
            self._keep_up()
        finally:
            self._busy.release()
            self._watch.close()

    def _keep_up(self) -> None:
        self._do(self._follow)  # What came before the watch began.
        while not self._stopped.is_set():
            is_behind = self._is_behind
            changed = self._watch.wait(_RETRY_SECONDS if is_behind else self._interval)
            if self._stopped.is_set():
                return
            if changed or is_behind:
                self._do(self._follow)
            if self._kept.is_dirty:
                self._do(self._kept.commit)

    def _follow(self) -> None:
        self._is_behind = True
        try:
            self._kept.refresh()
        finally:
            self._look_again()
        self._is_behind = False

    def _look_again(self) -> None:
        """Watch the folders of a core that is new."""
        cores = core_numbers(self._disk)
        if cores == self._cores or self._stopped.is_set():
            return
        old, self._watch = self._watch, self._begin(cores)
        self._cores = cores
        old.close()
        self._kept.refresh()

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
            self.failure = None
        except (ClosedError, SubscriberError) as error:
            self.failure = copy.copy(error)
            self._stopped.set()
        except Exception as error:  # noqa: BLE001 It is kept for whoever asks; the next try comes.
            if self.failure is None:
                self._events.warning("consumer.keeping_failed", error=error)
            self.failure = copy.copy(error) if isinstance(error, QuiverError) else error
        self._events.tell()


_living: weakref.WeakSet[Keeper] = weakref.WeakSet()


def _leave_all() -> None:
    for keeper in tuple(_living):
        keeper.leave()


atexit.register(_leave_all)
