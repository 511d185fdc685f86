"""What ``append(wait=False)`` gives: proof to come that a bundle is durable.

Durable has one meaning, whatever ``wal.durability`` says: the bundle survives a power cut.

==================  ====================================  ==================================
``wal.durability``  durable by itself                     ``wait`` and ``await`` hasten it by
==================  ====================================  ==================================
``sync``            ``wal.flush_interval`` after the      a write and a sync of the log
                    append at the latest
``interval``        the same                              a sync of the log
``segment``         when its segment is finalized         finalizing the open segment
==================  ====================================  ==================================

By itself means by the store's worker; without one, by the next ``maintain`` or ``flush``. Until it
is durable a bundle may be in this process alone, and go with it; with ``interval`` the operating
system has it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from quiver.engine.commit import Ticket

if TYPE_CHECKING:
    from quiver.engine.store import Store

__all__ = ["Receipt"]


class Receipt:
    """One bundle that was taken: its ``wal_seq``, and ways to learn that it survives a power cut.

    May be waited on and awaited any number of times, from any thread and any event loop.
    """

    __slots__ = ("_store", "_ticket")

    def __init__(self, store: Store, ticket: Ticket) -> None:
        self._store = store
        self._ticket = ticket

    @property
    def wal_seq(self) -> int:
        """The number that the bundle was given."""
        return self._ticket.wal_seq

    @property
    def is_durable(self) -> bool:
        """Whether the bundle survives a power cut, in every mode; never blocks.

        Once true it stays so, after a failed sync and after ``close`` too. False says only that
        nobody knows yet.
        """
        return self._store.is_durable(self._ticket)

    def wait(self, timeout: float | str | None = None) -> int:
        """Return the wal_seq once the bundle survives a power cut; many receipts share one sync.

        ``timeout`` is seconds or a duration such as ``"250ms"``; WaitTimeoutError says that it
        passed, and the call may be repeated. With a timeout the store's worker syncs. Without one,
        without a worker, or in what the worker calls, this thread does, unless another one is at it
        already, and the timeout bounds only the waiting for that one.

        Raises PoisonedError after a failed sync, and ClosedError if the store was closed and could
        not make the bundle durable. CapacityError, or StorageError, says that the disk did not take
        it although there had been room: nothing of it is in the store, and nothing of what was
        appended behind it and had not been written; each receipt says so of its own bundle.
        """
        self._store.wait_durable(self._ticket, timeout)
        return self.wal_seq

    def call(self, act: Callable[[Exception | None], object]) -> None:
        """Have a function called once, with None when the bundle survives a power cut.

        Or with why nobody can say so, as ``wait`` raises it. The store's worker calls it, which
        syncs ``wal.flush_interval`` after the append at the latest, or when ``Store.hasten`` says
        so; or who syncs before, but never with a lock of the store. This returns at once. What the
        function raises is logged as ``receipt.call_failed`` and changes nothing for anybody else.
        Where there is no worker, or nothing to wait for, it is called before this returns.
        """
        self._store.call_durable(self._ticket, act)

    def __await__(self) -> Generator[Any, None, int]:
        """Give the wal_seq once the bundle survives a power cut; the event loop goes on meanwhile.

        The store's worker syncs. Without one, this ends with the next sync that anybody does.
        Raises as ``wait`` does. Cancelling it stops nobody's sync, and it may be awaited again.
        """
        yield from self._store.await_durable(self._ticket)
        return self.wal_seq

    def __repr__(self) -> str:
        """Name the bundle."""
        return f"Receipt(wal_seq={self.wal_seq})"
