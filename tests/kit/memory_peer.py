"""A node without a disk: what a wire is tried on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

from quiver.chain.peers import (
    Ack,
    BlockName,
    Damaged,
    Entries,
    Finished,
    Holding,
    NodeState,
    Route,
    Status,
    Stream,
    Tell,
)
from quiver.chain.sealing import Answer, Copy, Frame, Sealed, admit, promise
from quiver.errors import FencedError, InputError, MissingError, QuiverError

__all__ = ["MemoryPeer"]


@dataclass
class Kept:
    """A block."""

    route: Route
    layout: str
    copy: Copy
    log: bytearray = field(default_factory=bytearray)
    last_seq: int = -1
    sealed: Sealed | None = None
    finished: Finished | None = None


class MemoryPeer:
    """Does what a node does, but for keeping it."""

    def __init__(self, name: str, peers: Callable[[str], object] | None = None) -> None:
        self.name = name
        self.peers = peers
        self.blocks: dict[BlockName, Kept] = {}
        self.condemned = 0
        self.changed = threading.Condition()
        self.streams: list[MemoryStream] = []
        self.sizes: list[int] = []
        self.assured: list[int] = []
        self.hold = threading.Event()
        self.hold.set()

    def kept(self, block: BlockName) -> Kept:
        try:
            return self.blocks[block]
        except KeyError:
            raise MissingError(f"{self.name} has nothing of {block}", path=self.name) from None

    def prepare(self, route: Route, layout: str) -> None:
        with self.changed:
            self.blocks[route.block] = Kept(route, layout, Copy(route.epoch, 0))

    def stream(
        self,
        route: Route,
        *,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> Stream:
        kept = self.kept(route.block)
        place = route.chain.index(self.name)
        before = route.chain[place - 1] if place else ""
        if before != route.sender:
            raise InputError(f"{self.name} is not the first of its chain, {route.chain[0]} is")
        made = MemoryStream(self, kept, acked, broken)
        if place + 1 < len(route.chain):
            behind = self.peers(route.chain[place + 1])
            further = route._replace(sender=self.name)
            made.behind = behind.stream(further, acked=acked, broken=broken)
        self.streams.append(made)
        return made

    def fence(self, block: BlockName, epoch: int) -> Answer:
        with self.changed:
            kept = self.kept(block)
            kept.copy = promise(kept.copy, epoch)
            return Answer(self.name, kept.copy.length, kept.last_seq, 0, 9)

    def cut(self, block: BlockName, sealed: Sealed) -> None:
        with self.changed:
            kept = self.kept(block)
            kept.sealed = sealed
            del kept.log[sealed.length :]
            self.changed.notify_all()

    def finish(self, block: BlockName) -> Finished:
        kept = self.kept(block)
        kept.finished = Finished(1, b"d" * 32, len(kept.log))
        return kept.finished

    def settle(self, block: BlockName, finished: Finished) -> None:
        self.kept(block).finished = finished

    def read(self, block: BlockName, offset: int, *, live: bool = False) -> Iterator[memoryview]:
        kept = self.kept(block)
        while True:
            with self.changed:
                piece = bytes(kept.log[offset : offset + (1 << 20)])
                if not piece and (not live or kept.sealed):
                    return
                if not piece:
                    self.changed.wait(0.02)
            offset += len(piece)
            yield memoryview(piece)

    def acks(
        self, block: BlockName, epoch: int, tell: Tell | None = None
    ) -> Generator[Ack, None, None]:
        kept = self.kept(block)
        while not kept.sealed:
            if epoch != kept.copy.epoch:
                raise FencedError(f"epoch {epoch} is over", epoch=epoch, current=kept.copy.epoch)
            yield Ack(len(kept.log), kept.last_seq)
            with self.changed:
                self.changed.wait(0.02)

    def segment(self, block: BlockName) -> Iterator[bytes]:
        data = bytes(self.kept(block).log)
        half = len(data) // 2
        yield from (data[:half], data[half:])

    def fetch(self, block: BlockName, source: str, finished: Finished) -> None:
        data = b"".join(self.peers(source).segment(block))
        route = Route(block, 1, (self.name,))
        self.blocks[block] = Kept(route, "", Copy(1, len(data)), bytearray(data), finished=finished)

    def verify(self, block: BlockName) -> Finished:
        finished = self.kept(block).finished
        assert finished is not None
        return finished

    def damaged(self) -> tuple[Damaged, ...]:
        return (Damaged(BlockName("core_0", 99), "rotten"),)

    def condemn(self, block: BlockName) -> int:
        self.condemned = self.kept(block).copy.epoch + 1
        return self.condemned

    def drop(self, block: BlockName, condemned: int = 0) -> None:
        if condemned and condemned != self.condemned:
            raise FencedError(f"{block} is wanted again")
        self.blocks.pop(block, None)

    def status(self) -> Status:
        held = tuple(
            Holding(name, kept.copy.epoch, len(kept.log), kept.finished)
            for name, kept in sorted(self.blocks.items())
        )
        return Status(self.name, NodeState.SERVING, 10, 20, held)


class MemoryStream:
    """Entries that come to a node without a disk."""

    def __init__(
        self,
        peer: MemoryPeer,
        kept: Kept,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> None:
        self.peer, self.kept = peer, kept
        self.acked, self.broken = acked, broken
        self.behind: Stream | None = None
        self.closed = threading.Event()

    def send(self, entries: Entries) -> None:
        self.peer.hold.wait(20)
        with self.peer.changed:
            frame = Frame(entries.epoch, entries.offset, len(entries.body))
            self.kept.copy = admit(self.kept.copy, frame)
            self.kept.log += entries.body
            self.kept.last_seq = entries.last_seq
            self.peer.sizes.append(len(entries.body))
            self.peer.changed.notify_all()
        if self.behind is not None:
            self.behind.send(entries)
        else:
            self.acked(Ack(self.kept.copy.length, entries.last_seq))

    def assure(self, length: int) -> None:
        self.peer.assured.append(length)
        if self.behind is not None:
            self.behind.assure(length)

    def close(self) -> None:
        self.closed.set()
        if self.behind is not None:
            self.behind.close()
