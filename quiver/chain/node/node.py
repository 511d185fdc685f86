"""A node of a chain: its copies, and the streams that go through it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from quiver.chain.copies import BlockCopy, BundleCheck, Copies
from quiver.chain.node.passage import Passage
from quiver.chain.node.quota import Quota
from quiver.chain.peers import (
    Ack,
    BlockName,
    Damaged,
    Finished,
    Holding,
    NodeState,
    Peers,
    Route,
    Status,
    Stream,
    Tell,
    promised,
)
from quiver.chain.sealing import Answer, Sealed
from quiver.chain.workers import Workers
from quiver.errors import FencedError, InputError, MissingError, QuiverError, RemoteError

__all__ = ["LocalNode"]


def _always(block: BlockName) -> bool:  # noqa: ARG001
    return True


class LocalNode:
    """A ``Peer`` in this process. Safe for many threads."""

    def __init__(
        self,
        name: str,
        copies: Copies,
        *,
        peers: Peers,
        workers: Workers,
        room: Callable[[], tuple[int, int]],
        hears: Callable[[BlockName], bool] = _always,
        live_seconds: float = 0.2,
        capacity: int = 0,
    ) -> None:
        """Serve these copies as the node ``name``; ``peers`` are the others.

        ``room`` gives the free and all bytes of its disk. ``hears`` says whether the chain of an
        open block still reaches this node: a tail that does not hear it serves no readers. Live
        readers are told every ``live_seconds`` that there is nothing new. ``capacity`` is how many
        bytes its copies may take; 0: as many as the disk has.
        """
        self._name = name
        self._copies = copies
        self._peers = peers
        self._workers = workers
        self._quota = Quota(capacity, copies.byte_count, room)
        self._hears = hears
        self._live_seconds = live_seconds
        self._lock = threading.Lock()
        self._passages: dict[BlockName, Passage] = {}
        self._asking: set[BlockName] = set()
        self.state = NodeState.SERVING
        """Set by whoever starts it and ends it; new blocks and streams come when it serves."""

    @property
    def name(self) -> str:
        """The node's name in records."""
        return self._name

    # writing -----------------------------------------------------------------------------------

    def prepare(self, route: Route, layout: str) -> None:
        """Make room for a block, durably."""
        self._check_serving()
        self._quota.check_begin()
        self._copies.prepare(route, layout)

    def stream(
        self,
        route: Route,
        *,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> Stream:
        """Let a stream in, and open the one to the node behind; one for a block at a time."""
        self._check_serving()
        place = self._place(route)
        copy = self._copies[route.block]
        named: dict[str, Any] = {"acked": acked, "broken": broken, "take": self._quota.take}
        if not place:  # What a loader sends is looked at once, before anybody relies on it.
            named["check"] = BundleCheck(copy.state.layout).check
        passage = Passage(copy, route, workers=self._workers, **named)
        with self._lock:
            before = self._passages.get(route.block)
            self._passages[route.block] = passage
        if before is not None:
            before.stop(InputError(f"another stream of {route.block} was opened"))
        if place + 1 < len(route.chain):
            try:
                self._open_behind(passage, route, route.chain[place + 1])
            except QuiverError:
                passage.close()
                raise
        return passage

    def _place(self, route: Route) -> int:
        """Say where in the chain this node is; the one before it, alone, may send to it (R24)."""
        if self._name not in route.chain:
            raise InputError(f"{self._name} is not in the chain {', '.join(route.chain)}")
        place = route.chain.index(self._name)
        before = route.chain[place - 1] if place else ""
        if route.sender != before:
            raise InputError(
                f"{self._name} takes block {route.block.number} of {route.block.partition} from "
                f"{before or 'its loader'}, not from {route.sender or 'a loader'}",
                hint=f"write to {route.chain[0]}",
            )
        return place

    def _open_behind(self, passage: Passage, route: Route, name: str) -> None:
        def broken(error: QuiverError) -> None:
            passage.stop(error)

        try:
            behind = self._peers(name).stream(
                route._replace(sender=self._name), acked=passage.acked, broken=broken
            )
        except MissingError as error:
            raise RemoteError(f"{name} takes nothing: {error}", path=name) from error
        passage.pass_to(behind)

    # ending ------------------------------------------------------------------------------------

    def fence(self, block: BlockName, epoch: int) -> Answer:
        """Promise durably to let no smaller epoch in; a stream of one is broken."""
        if self.state is NodeState.INITIALIZING:  # What it has may be older than it should be.
            self._check_serving()
        answer = self._copies[block].fence(epoch)
        self._stop(block, f"epoch {epoch} fenced block {block.number}", epoch)
        return answer

    def cut(self, block: BlockName, sealed: Sealed) -> None:
        """Cut the copy to where the record says that the block ends."""
        copy = self._copies[block]
        copy.cut(sealed)
        self._stop(block, f"block {block.number} was cut", copy.holding.epoch)

    def finish(self, block: BlockName) -> Finished:
        """Make the segment of a block that was cut."""
        return self._copies[block].finish()

    def settle(self, block: BlockName, finished: Finished) -> None:
        """Let go of the log."""
        self._copies[block].settle(finished)

    def fetch(self, block: BlockName, source: str, finished: Finished) -> None:
        """Copy a finished segment from another node, checked by its digest."""
        if self._copies.is_wanted(block, finished):
            return
        with self._quota.keep(finished.size):
            self._copies.keep(block, self._peers(source).segment(block), finished)

    def verify(self, block: BlockName, pause: Callable[[int], None] = lambda _: None) -> Finished:
        """Read a finished segment anew; one that is rotten is set aside."""
        return self._copies.verify(block, pause)

    def condemn(self, block: BlockName) -> int:
        """Give what a copy can be dropped with as long as nobody wants it again."""
        return self._copies[block].condemn()

    def drop(self, block: BlockName, condemned: int = 0) -> None:
        """Delete what there is of a block, for good (R41)."""
        self._copies.drop(block, condemned)
        self._stop(block, f"block {block.number} was dropped", 0)

    def _stop(self, block: BlockName, why: str, epoch: int) -> None:
        with self._lock:
            passage = self._passages.pop(block, None)
        if passage is not None:
            passage.stop(FencedError(why, current=epoch, hint="read the partition's record again"))

    # reading -----------------------------------------------------------------------------------

    def read(self, block: BlockName, offset: int, *, live: bool = False) -> Iterator[memoryview]:
        """Read whole entries from an offset on, until the end of what is visible."""
        copy = self._copies[block]
        if not live:
            self._ask_others(copy)
        for piece in copy.read(offset, live=live, wait_seconds=self._live_seconds):
            if not copy.is_cut and not self._hears(block):
                raise RemoteError(
                    f"{self._name} does not hear the others of block {block.number}",
                    path=self._name,
                    retryable=True,
                )
            if live and not piece:
                self._look_again(copy)
            yield piece

    def acks(
        self, block: BlockName, epoch: int, tell: Tell | None = None
    ) -> Generator[Ack, None, None]:
        """Say what all locations of an open block have, as its tail."""
        copy, said = self._copies[block], -1
        wait = partial(copy.visible, wait_seconds=self._live_seconds, listens=tell is not None)
        with copy.readers.listening(tell):
            while True:
                seen, is_cut = wait(said)
                if copy.state.epoch != epoch:
                    raise FencedError(
                        f"block {block.number} is in epoch {copy.state.epoch}, not {epoch}",
                        epoch=epoch,
                        current=copy.state.epoch,
                    )
                if is_cut:
                    return
                if seen.length == said:
                    self._look_again(copy)
                said = seen.length
                yield Ack(seen.length, seen.last_seq)

    def _look_again(self, copy: BlockCopy) -> None:
        """Have somebody ask the others beside a live reader, who waits for nobody that is gone."""
        with self._lock:
            if copy.found_unsure() is None or copy.name in self._asking:
                return
            self._asking.add(copy.name)

        def ask() -> None:
            try:
                with suppress(RemoteError):  # It is asked again.
                    self._ask_others(copy)
            finally:
                self._asking.discard(copy.name)

        try:
            self._workers.spawn(f"quiver asks {copy.name}", ask)
        except BaseException:  # There is no thread for it: whoever looks next tries again.
            self._asking.discard(copy.name)
            raise

    def _ask_others(self, copy: BlockCopy) -> None:
        """Show the last entry of an open copy that was found at a start, if all others have it.

        No stream of before the start goes on, so they are asked by what they promised already.
        Raises RemoteError if not all of them answer: then nobody knows yet.
        """
        state, found = copy.state, copy.found_unsure()
        if found is None or state.chain[-1:] != (self._name,):
            return
        try:
            lengths = [self._synced_by(node, copy.name, state.epoch) for node in state.chain[:-1]]
        except QuiverError as error:
            raise RemoteError(
                f"{self._name} was started anew, and cannot ask the others of block "
                f"{copy.name.number} of {copy.name.partition} whether all have its last entry: "
                f"{error}",
                path=self._name,
                retryable=True,
                hint="it is known once they are back, or when the block is sealed",
            ) from error
        if all(length >= found.length for length in lengths):
            copy.readers.show(found)

    def _synced_by(self, node: str, block: BlockName, epoch: int) -> int:
        """Ask how much a node has synced, by an epoch that it promised already: nothing changes.

        Whoever answers has to be that node: another one may be where it was.
        """
        while True:
            try:
                return promised(self._peers(node), node, block=block, epoch=epoch).length
            except FencedError as error:
                if error.current <= epoch:
                    raise
                epoch = error.current  # Somebody seals; whether he ends that is another matter.

    def segment(self, block: BlockName) -> Iterator[bytes]:
        """Read the finished segment, a piece at a time."""
        return self._copies[block].segment()

    def status(self) -> Status:
        """Say what there is."""
        return Status(self._name, self.state, *self.room(), self.holdings())

    def room(self) -> tuple[int, int]:
        """Give the bytes that are free for copies, and all of them."""
        return self._quota.room()

    def holdings(self) -> tuple[Holding, ...]:
        """Say what copies there are, in order of name."""
        return self._copies.holdings()

    def damaged(self) -> tuple[Damaged, ...]:
        """Say which copies are damaged, and why."""
        found = sorted(self._copies.damaged.copy().items())
        return tuple(Damaged(name, str(error)) for name, error in found)

    def close(self) -> None:
        """End all streams and let go of the files."""
        with self._lock:
            passages, self._passages = list(self._passages.values()), {}
        for passage in passages:
            with suppress(QuiverError):
                passage.stop(RemoteError(f"{self._name} ends", path=self._name, retryable=True))
        self._copies.close()

    def _check_serving(self) -> None:
        if self.state is not NodeState.SERVING:
            raise RemoteError(
                f"{self._name} is {self.state.value}", path=self._name, retryable=True
            )
