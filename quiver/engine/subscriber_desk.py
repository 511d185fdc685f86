"""What a store does for its subscribers: they come, pause, start over, go, and are looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from quiver.engine import going, lifecycle
from quiver.engine.apart import append_for
from quiver.engine.core import Core
from quiver.engine.fold import take_over
from quiver.engine.forgoing import ack_early
from quiver.engine.inboxes import await_inbox
from quiver.engine.lifecycle import Lag
from quiver.engine.start import Start
from quiver.engine.subscription import Subscription
from quiver.engine.wanted import DeliveryOrder, wanted_of
from quiver.errors import ClosedError, LockedError

__all__ = ["SubscriberDesk"]

_TRIES: Final = 10
"""How often in a row somebody else may be at an inbox that was free just before."""

_Given = TypeVar("_Given")


class SubscriberDesk(ABC):
    """The side of a store that its subscribers see."""

    _core: Core
    _closed: bool

    def check_usable(self) -> None:
        """Raise ClosedError after close or in a forked child, PoisonedError after a failed sync.

        And CapacityError in the midst of another call of this thread: without the lock, then.
        """
        self.check_alive()
        self._core.refuse_nested()

    def check_alive(self) -> None:
        """Do the same, but in the midst of another call as well: enough for who only looks."""
        self._core.check_process()
        self.check_state()

    def check_state(self) -> None:
        """Do the same, but do not look at the process or the thread."""
        if self._closed:
            raise ClosedError("the store is closed", hint="quiver.open(path) opens it again")
        self._core.check()

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether ``close`` was called."""

    @property
    @abstractmethod
    def inherited(self) -> bool:
        """Whether this is the copy of a store that a forked child has."""

    def subscribe(
        self,
        name: str,
        *,
        start: Start = "earliest",
        order: DeliveryOrder = "oldest",
        slots: Collection[str] | str | None = None,
        prefetch: int = 0,
    ) -> Subscription:
        """Take bundles as the subscriber ``name``, which is registered durably if it is new.

        A new subscriber gets everything that is still there, or what ``start`` says: ``"latest"``
        is what is appended from now on, a number the segment to begin with, a time (``datetime`` or
        ISO 8601) the first bundle appended then or later. From there on nothing is deleted before
        it has acked it; what lies before may go, if no other subscriber needs it. Names: letters,
        digits, dot, dash, underscore; up to 128.

        The rest is this subscription's own. ``order``: ``"oldest"`` first; ``"newest"`` segment
        first, then back to the older ones; or a function that ranks bundles, highest first. With
        ``slots`` a bundle that has none of them is acked unseen, and of others only those are read.
        ``prefetch`` bundles are claimed and read at a time.
        """
        self.check_usable()
        wanted = wanted_of(self._core, order=order, slots=slots, prefetch=prefetch)

        def come(core: Core) -> Subscription:
            lifecycle.register(core, name, start)
            take_over(core, name)
            subscription = Subscription(self, core, name, wanted=wanted)
            core.subscriptions.add(subscription)
            return subscription

        return self._change_at(name, come)

    def ack_early(self, name: str, wal_seqs: Collection[int]) -> list[int]:
        """Say that a subscriber has bundles, which are durable, before a segment has them.

        They do not come to it then, and a segment that all subscribers have in this way is not
        written, if nothing else wants it. This is kept in memory until the segment is due: a crash
        before forgets it, and they come. Gives those for which it is too late, and which come.
        """
        self.check_usable()
        with self._core.lock:
            return ack_early(self._core, name, wal_seqs)

    def append_for(self, name: str, bundle: Mapping[str, Any]) -> int:
        """Append a bundle that comes to one subscriber alone, as what it gave up; give its wal_seq.

        It is durable when the segment is, which ``finalize`` sees to. All others have it already,
        as by ``ack_early``: a crash before that segment is there brings it to them as well.
        Raises what ``append`` raises, and CapacityError at once if there is no room.
        """
        self.check_usable()
        return self._change(lambda core: append_for(core, name, bundle))

    def unsubscribe(self, name: str) -> None:
        """Forget a subscriber for good; segments that only it still needed become free to go."""
        self._change_at(name, lambda core: going.unregister(core, name))

    def pause(self, name: str) -> None:
        """Deliver nothing to a subscriber until ``resume``, restarts included; its data is kept."""
        self._change(lambda core: lifecycle.pause(core, name, paused=True))

    def resume(self, name: str) -> None:
        """Deliver to a paused subscriber again."""
        self._change(lambda core: lifecycle.pause(core, name, paused=False))

    def rename(self, name: str, new_name: str) -> None:
        """Let a subscriber go on as ``new_name``, where it is; its subscriptions are of no use."""
        self._change_at(name, lambda core: going.rename(core, name, new_name))

    def reset(self, name: str, *, start: Start = "earliest") -> None:
        """Let a subscriber start over at a position, as ``subscribe`` knows them.

        What it has in its hands may be resolved, to no effect: it is delivered again if the new
        position is not behind it. What lies before that, and nobody else needs, may be deleted. Its
        dead letters stay, and are counted anew; who is paused stays so.
        """
        self._change_at(name, lambda core: going.reset(core, name, start))

    def lag(self, name: str) -> Lag:
        """Say how far behind a subscriber is: segments, bundles, bytes, age, and what it pins."""
        self.check_alive()
        with self._core.lock:
            return lifecycle.lag_of(self._core, name)

    def lags(self) -> tuple[Lag, ...]:
        """Say the same of every subscriber, in order of name."""
        self.check_alive()
        with self._core.lock:
            return tuple(lifecycle.lag_of(self._core, n) for n in self._core.registry.names())

    def _change(self, act: Callable[[Core], _Given]) -> _Given:
        self.check_usable()
        with self._core.events.telling(), self._core.lock:
            self.check_state()
            return act(self._core)

    def _change_at(self, name: str, act: Callable[[Core], _Given]) -> _Given:
        """Do what needs the inbox of a subscriber, which is waited for without the lock."""
        for _ in range(_TRIES - 1):
            self.check_usable()
            await_inbox(self._core, name)
            with suppress(LockedError):  # Somebody was faster.
                return self._change(act)
        return self._change(act)
