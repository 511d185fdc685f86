"""A node as others see it: in the same process, or over a wire."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from quiver.chain.peers.values import Ack, BlockName, Damaged, Entries, Finished, Route, Status
from quiver.chain.sealing import Answer, Sealed
from quiver.errors import QuiverError

__all__ = ["Peer", "Peers", "Stream", "Tell"]

Tell = Callable[[Ack], bool]
"""Takes an ack in the thread that synced, and gives whether it did; that one is not given again.

It is called for entries that were sent by somebody who had heard of all before them from this very
node (``Entries.has_heard``): so there is at most one that he has not read, and it waits for nobody.
"""


class Stream(Protocol):
    """Entries on their way to a node, and through it to all behind it."""

    def send(self, entries: Entries) -> None:
        """Hand entries on, in order; waits while too much is under way.

        Raises what broke the stream: FencedError, RemoteError.
        """
        ...

    def assure(self, length: int) -> None:
        """Say that whoever sends, and all before it, have synced so much; raises as ``send`` does.

        Entries that have heard (``Entries.has_heard``) are passed on before that, and others only
        behind it: those say it by themselves.
        """
        ...

    def close(self) -> None:
        """End the stream; nothing is told any more. What is under way may or may not arrive."""
        ...


class Peer(Protocol):
    """One node. Safe for many threads.

    Each call raises RemoteError (``retryable`` if it may be tried again, ``path`` the name of the
    node) when the node cannot be reached or does not answer in time, FencedError for an epoch that
    is too small, and MissingError for a block of which the node has nothing: never is that told as
    a block of no bytes.
    """

    @property
    def name(self) -> str:
        """The node's name in records."""
        ...

    def prepare(self, route: Route, layout: str) -> None:
        """Make room for a block, durably; a node refuses entries of a block it did not prepare.

        ``layout`` is the slot table, as ``encode_layout`` writes it. The same may be prepared
        again, with another chain too, until a stream of it is opened.
        """
        ...

    def stream(
        self,
        route: Route,
        *,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> Stream:
        """Open the stream of a block; the node passes on what comes to the one behind it.

        It tells ``acked`` what it and all behind it have synced. That and ``broken`` are called by
        a thread of the stream, or in ``send``, and must not wait for it; ``broken`` once, at an
        error or at silence: a RemoteError's ``path`` is the node that the one before it in the
        chain did not reach. A node refuses another chain than it made room for, and whoever is not
        before it there: a loader that is sent to the first one (R23).
        """
        ...

    def fence(self, block: BlockName, epoch: int) -> Answer:
        """Promise durably to let no smaller epoch in, and say what there is."""
        ...

    def cut(self, block: BlockName, sealed: Sealed) -> None:
        """Cut the copy to where the record says that the block ends; may be asked again."""
        ...

    def finish(self, block: BlockName) -> Finished:
        """Make the segment of a block that was cut; gives the one that is there."""
        ...

    def settle(self, block: BlockName, finished: Finished) -> None:
        """Let go of the log: all locations have the finished segment (R42).

        Whoever finished to other bytes fetches it instead.
        """
        ...

    def read(self, block: BlockName, offset: int, *, live: bool = False) -> Iterator[memoryview]:
        """Read whole entries from an offset on, some at a time, until the end of what is visible.

        Of an open block only the tail gives any, and only what is visible; another one names the
        tail (R26). ``live`` waits for more until the block is cut; an empty piece says that there
        is nothing yet. Of a settled block MissingError: there is a segment.
        """
        ...

    def acks(
        self, block: BlockName, epoch: int, tell: Tell | None = None
    ) -> Generator[Ack, None, None]:
        """Say, at the tail of an open block, what all of its locations have, whenever that grows.

        And now and then what was said before. It ends where the block does; FencedError once its
        epoch is over. Nothing but the tail's own word is needed: it has that of all others. What
        ``tell`` takes is not given at once; it may never be called.
        """
        ...

    def segment(self, block: BlockName) -> Iterator[bytes]:
        """Read the finished segment, a piece at a time."""
        ...

    def fetch(self, block: BlockName, source: str, finished: Finished) -> None:
        """Copy a finished segment from another node, checked by its digest, and keep it durably.

        A node that has it keeps it: who condemned its copy before drops it no more.
        """
        ...

    def verify(self, block: BlockName) -> Finished:
        """Read a finished segment anew; DamagedEntry if it is rotten, and then it is set aside."""
        ...

    def condemn(self, block: BlockName) -> int:
        """Give what a copy can be dropped with, until it is fetched or condemned again."""
        ...

    def drop(self, block: BlockName, condemned: int = 0) -> None:
        """Delete what there is of a block; entries of it are refused from then on (R41).

        With what ``condemn`` gave only if the copy was not wanted since: else FencedError. Without,
        whatever there is: of a block that is gone for good.
        """
        ...

    def status(self) -> Status:
        """Say what there is."""
        ...

    def damaged(self) -> tuple[Damaged, ...]:
        """Say which copies are damaged: those are not in ``status``."""
        ...


class Peers(Protocol):
    """The nodes that there are."""

    def __call__(self, name: str) -> Peer:
        """Give a node by its name; raises MissingError if nobody knows it. It need not be up."""
        ...
