"""One partition, block after block, from whatever copy answers.

Sealed blocks are read at any location, the last one first (R29), open ones at the tail alone (R26).
What was read at the tail before a seal is the beginning of what was sealed, so reading goes on
where it was, at another copy, after the record was read again. Times and numbers of bundles say
what was given already: each comes once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Peers
from quiver.chain.reading.decoding import (
    ForeignPosition,
    UnreadableEntry,
    messages_in_log,
    messages_in_segment,
)
from quiver.chain.reading.message import ChainMessage, ChainPosition, Silence
from quiver.chain.record import Block, Open, Partition, Record
from quiver.clock import Clock
from quiver.errors import (
    DamageError,
    FencedError,
    InputError,
    MissingError,
    PoisonedError,
    RemoteError,
    StorageError,
)
from quiver.slots import SlotTable

__all__ = ["Followed", "follow"]

_FAILS: Final = (StorageError, PoisonedError, FencedError, InputError, DamageError)
"""Of one copy; another one is asked then."""
_PAUSE: Final = 0.1
_NONE: Final = ChainPosition(-(1 << 63), -1)
"""Before all bundles."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is read of a partition, and how it is reached."""

    metadata: Metadata
    peers: Peers
    clock: Clock
    partition: str
    slots: Callable[[], SlotTable | None]
    """None as long as nobody has said what is in it."""
    start_ns: int
    end_ns: int
    """Both included."""
    after: ChainPosition | None = None
    live: bool = False
    patience: float = 30.0
    """Seconds for which a copy that nobody gives is waited for, unless it is live."""


def follow(asked: Followed) -> Iterator[ChainMessage | Silence]:
    """Give messages in order, and why none comes where one has to be waited for.

    Raises RemoteError if nobody gives a block for so long, and MissingError for what is purged.
    """
    return _Follower(asked).run()


class _Follower:
    def __init__(self, asked: Followed) -> None:
        self._asked = asked
        self._partition = Partition(asked.metadata, asked.partition, clock=asked.clock)
        self._last = asked.after or _NONE
        """Numbers alone would not do: behind a block that was abandoned they come again."""
        self._after = asked.after
        """What entries have to fit to."""
        self._from_ns = max(asked.start_ns, asked.after.time_ns if asked.after else asked.start_ns)
        self._number = -1
        """Blocks up to this one are done with."""
        self._place: tuple[int, int] = (-1, 0)
        """A block, and how far its log was read."""
        self._since_ns = asked.clock.monotonic_ns()
        """When something last went on."""
        self._is_over = False
        self._slots: SlotTable | None = None
        self._is_behind_abandoned = False

    def run(self) -> Iterator[ChainMessage | Silence]:
        asked = self._asked
        while not self._is_over:
            try:
                record = self._record()
                self._slots = self._slots or asked.slots()
                block = self._next(record) if record and self._slots else None
            except RemoteError as error:
                if not error.retryable:
                    raise
                self._check_patience(error)
                yield Silence.UNKNOWN
                asked.clock.pause(_PAUSE)
                continue
            if block is None:
                if not asked.live:
                    return
                yield Silence.IDLE
                asked.clock.pause(_PAUSE)
                continue
            if asked.live:  # What was said of the block before is nothing said of this one.
                yield Silence.UNKNOWN
            if isinstance(block, Open):
                yield from self._open_block(block)
            else:
                yield from self._sealed_block(block)

    def _record(self) -> Record | None:
        try:
            return self._partition.read()
        except MissingError:
            if self._asked.live:
                return None  # It exists from its first message on (R8).
            raise

    def _next(self, record: Record) -> Block | Open | None:
        """Give the block to be read, as it is now."""
        if self._number < 0:
            found = self._partition.find(record, self._from_ns)
            if not found:
                return None
            self._number = found[0].number - 1
        wanted = self._number + 1
        if self._last == _NONE:  # A page has what was purged of it as long as any of it is left.
            wanted = max(wanted, record.purged_below)
        if wanted < record.purged_below:
            raise MissingError(
                f"blocks of {self._asked.partition} before {record.purged_below} were purged "
                "before the cursor came to them",
                path=self._asked.partition,
                hint="make another one; it goes on with what there is",
            )
        if record.open is not None and record.open.number == wanted:
            return record.open
        for block in self._partition.blocks_from(record, wanted):
            if not block.is_abandoned:
                return self._partition.block(record, block.number)
            self._number = block.number  # What was in it nobody has.
            self._is_behind_abandoned = True
        opened = record.open
        return opened if opened is not None and opened.number >= wanted else None

    # blocks --------------------------------------------------------------------------------------

    def _sealed_block(self, block: Block) -> Iterator[ChainMessage | Silence]:
        name = BlockName(self._asked.partition, block.number)
        fault: Exception | None = None
        for location in reversed(block.locations):
            try:
                yield from self._copy(name, block, location)
            except UnreadableEntry:
                raise
            except ForeignPosition as error:
                self._check_abandoned(error)
                return
            except _FAILS as error:
                fault = error
                continue
            self._number = block.number
            self._heard()
            return
        self._check_patience(fault or MissingError(f"nobody has {name}"))
        yield Silence.UNKNOWN
        self._asked.clock.pause(_PAUSE)

    def _copy(
        self, name: BlockName, block: Block, location: str
    ) -> Iterator[ChainMessage | Silence]:
        """Read all of a sealed copy that was not read yet."""
        peer = self._asked.peers(location)
        offset = self._offset(name)
        try:
            for piece in peer.read(name, offset):
                yield from self._given(piece, name)
            if self._offset(name) != block.length:
                raise RemoteError(
                    f"{location} has {self._offset(name):,} bytes of {name}, not {block.length:,}",
                    path=location,
                    retryable=True,
                )
        except MissingError:
            if not block.digest:
                raise
            pieces = peer.segment(name)
            slots = self._slots_known()
            for message in messages_in_segment(
                pieces, name, slots, above=self._last, after=self._after
            ):
                yield from self._one(message)

    def _open_block(self, block: Open) -> Iterator[ChainMessage | Silence]:
        """Read what is visible at the tail; live: until it is sealed, or nobody answers."""
        name = BlockName(self._asked.partition, block.number)
        tail = block.locations[-1]
        live = self._asked.live
        try:
            for piece in self._asked.peers(tail).read(name, self._offset(name), live=live):
                self._heard()
                yield from self._given(piece, name)
                if self._is_over:
                    return
                if not piece:
                    yield Silence.IDLE
            self._is_over = not live
        except UnreadableEntry:
            raise
        except ForeignPosition as error:
            self._check_abandoned(error)
        except _FAILS as error:
            if not live:
                self._check_patience(error)
            yield Silence.UNKNOWN
            self._asked.clock.pause(_PAUSE)

    def _given(self, piece: memoryview, name: BlockName) -> Iterator[ChainMessage]:
        offset = self._offset(name)
        slots = self._slots_known()
        for message in messages_in_log(
            piece, name, slots, above=self._last, offset=offset, after=self._after
        ):
            yield from self._one(message)
        self._place = name.number, offset + len(piece)

    def _check_abandoned(self, error: ForeignPosition) -> None:
        """Go on by time alone if the position may be of a block that was given up."""
        if not any(block.is_abandoned for block in self._partition.blocks(self._partition.read())):
            raise error
        self._after = None

    def _one(self, message: ChainMessage) -> Iterator[ChainMessage]:
        self._last = ChainPosition(message.time_ns, message.wal_seq)
        if message.time_ns > self._asked.end_ns:
            self._is_over = True
        elif message.time_ns >= self._asked.start_ns and not self._is_over:
            if self._is_behind_abandoned:
                message = message._replace(is_behind_abandoned=True)
                self._is_behind_abandoned = False
            yield message

    def _offset(self, name: BlockName) -> int:
        number, offset = self._place
        return offset if number == name.number else 0

    def _slots_known(self) -> SlotTable:
        if self._slots is None:  # pragma: no cover
            raise InputError(f"nobody says what is in {self._asked.partition}")
        return self._slots

    def _heard(self) -> None:
        self._since_ns = self._asked.clock.monotonic_ns()

    def _check_patience(self, error: Exception) -> None:
        waited = self._asked.clock.monotonic_ns() - self._since_ns
        if not self._asked.live and waited > self._asked.patience * 1e9:
            raise error
