"""A partition's record where it is kept: read, changed by one at a time, and searched by time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import blake3

from quiver.chain.metadata import Kept, Metadata, swap
from quiver.chain.record.changes import check_amended, paged, purged, with_block
from quiver.chain.record.format import (
    decode_amended,
    decode_page,
    decode_record,
    encode_amended,
    encode_record,
)
from quiver.chain.record.values import DIGEST_BYTES, Amended, Block, Open, PageRef, Record
from quiver.clock import Clock
from quiver.errors import (
    DamagedEntry,
    DamageError,
    InputError,
    MissingError,
    RemoteError,
    VersionError,
)
from quiver.ship.objects import Conflict

__all__ = ["Partition", "is_partition_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_LAST: Final = re.compile(r"(?:[0-9a-f]{16}-)?([0-9a-f]{16})(?:-[0-9a-f]{32})?")
"""The last block that a page, or an amended block, is about."""
_TRIES_MAX: Final = 100
_PAGES_KEPT: Final = 8


def is_partition_name(name: str) -> bool:
    """Whether a partition may have this name."""
    return _NAME.fullmatch(name) is not None


class Partition:
    """What is agreed on about one partition. Not safe for threads: each makes its own."""

    def __init__(self, metadata: Metadata, name: str, *, clock: Clock) -> None:
        """Take a place and a name; nothing is read yet."""
        if not is_partition_name(name):
            raise InputError(f"{name!r:.120} is no name of a partition", hint="as core_0")
        self._metadata = metadata
        self._name = name
        self._clock = clock
        self._pages: OrderedDict[bytes, tuple[Block, ...]] = OrderedDict()

    @property
    def name(self) -> str:
        """The partition's name."""
        return self._name

    def create(self, rf: int = 2, *, is_rising: bool = True) -> Record:
        """Make the record, or give the one that is there: RF stays what it was then (R28)."""
        data = encode_record(Record(rf=rf, is_rising=is_rising))
        with suppress(Conflict):
            self._metadata.cas(self._key("record"), None, data)
        return self.read()

    def read(self) -> Record:
        """Read the record; raises MissingError, DamageError, VersionError, RemoteError."""
        return self._read()[1]

    def _read(self) -> tuple[Kept, Record]:
        try:
            kept = self._metadata.get(self._key("record"))
        except MissingError as error:
            raise MissingError(
                f"there is no partition {self._name} in {self._metadata.place}",
                path=self._key("record"),
                hint="one is made by its first loader",
            ) from error
        with self._placed(self._key("record")):
            return kept, decode_record(kept.data)

    def change(self, act: Callable[[Record], Record]) -> Record:
        """Do what ``act`` says to the record, whoever changes it meanwhile; gives what was put.

        It is called anew on each record that somebody else put, and ends it by raising. A record
        that it returns as it was is not put.
        """
        for _ in range(_TRIES_MAX):
            kept, record = self._read()
            changed = act(record)
            if changed == record:
                return record
            changed, pages = paged(changed)
            data = encode_record(changed)
            for page, content in pages.items():
                self._put_page(page, content)
            key = self._key("record")
            if swap(self._metadata, key, kept, data=data, clock=self._clock):
                return changed
        raise RemoteError(
            f"{key} in {self._metadata.place} was changed by others {_TRIES_MAX} times in turn",
            path=key,
            retryable=True,
        )

    # blocks --------------------------------------------------------------------------------------

    def blocks(self, record: Record) -> Iterator[Block]:
        """Go through all sealed blocks that are not purged, oldest first, as they were paged."""
        for page in record.pages:
            for block in self._page(page):
                if block.number >= record.purged_below:
                    yield block
        yield from record.recent

    def blocks_now(self, record: Record) -> Iterator[Block]:
        """Go through them as they are now, also those whose copies moved since they were paged."""
        moved = self.moved()
        for block in self.blocks(record):
            yield self._amended(block)[1] if block.number in moved else block

    def blocks_from(self, record: Record, number: int) -> Iterator[Block]:
        """Go through those whose number is this one or greater; only their pages are read."""
        for page in record.pages[bisect_left(record.pages, number, key=lambda page: page.last) :]:
            yield from (each for each in self._page(page) if each.number >= number)
        yield from (each for each in record.recent if each.number >= number)

    def block(self, record: Record, number: int) -> Block:
        """Give a block as it is now; MissingError if it is purged, open, or never was."""
        return self._amended(self._paged(record, number))[1]

    def moved(self) -> frozenset[int]:
        """Give the numbers of blocks that changed since they were paged: others are as paged."""
        found = (
            _LAST.fullmatch(key.rpartition("/")[2])
            for key in self._metadata.keys(self._key("amended/"))
        )
        return frozenset(int(each[1], 16) for each in found if each)

    def amend(self, number: int, act: Callable[[Block], Block]) -> Block:
        """Change the copies of a block, or note that it is finished; as ``change`` does."""
        for _ in range(_TRIES_MAX):
            kept, record = self._read()
            was: Kept | None = kept
            key = self._key("record")
            known = next((each for each in record.recent if each.number == number), None)
            if known is not None:
                block = act(known)
                data = encode_record(with_block(record, block))
            else:
                amended, known = self._amended(self._paged(record, number))
                block = act(known)
                check_amended(known, block)
                key, was = self._amended_key(number), amended[0] if amended else None
                change = amended[1].change + 1 if amended else 1
                data = encode_amended(Amended(change, block))
            if block == known or swap(self._metadata, key, was, data=data, clock=self._clock):
                return block
        raise RemoteError(f"{key} is changed by others all the time", path=key, retryable=True)

    def find(self, record: Record, time_ns: int) -> list[Block | Open]:
        """Give the blocks that may have entries of this time, else the next one (R15, R16, R17).

        One, but for a run of equal times that a fault has parted; none behind the last.
        """
        found: list[Block | Open] = []
        for block in self._from(record, time_ns):
            if found and block.start > time_ns:
                break
            found.append(block)
            if isinstance(block, Open) or block.end > time_ns:
                break
        return found

    def _from(self, record: Record, time_ns: int) -> Iterator[Block | Open]:
        """Go through blocks from the first on that ends at this time, or later."""
        for page in record.pages[bisect_left(record.pages, time_ns, key=_end) :]:
            blocks = self._page(page)
            for block in blocks[bisect_left(blocks, time_ns, key=_end) :]:
                if block.number >= record.purged_below:
                    yield block
        yield from record.recent[bisect_left(record.recent, time_ns, key=_end) :]
        if record.open is not None:
            yield record.open

    # purging -------------------------------------------------------------------------------------

    def purge(self, time_ns: int) -> Record:
        """Let go of all blocks that end before this time, for good (R41).

        What is deleted of the metadata is deleted behind it, and again by each later purge.
        """

        def act(record: Record) -> Record:
            kept = next(self._from(record, time_ns), None)
            return purged(record, kept.number if kept else record.next_number)

        record = self.change(act)
        self.sweep(record)
        return record

    def sweep(self, record: Record) -> list[str]:
        """Delete pages and amended blocks that are purged, whoever made them since."""
        gone = []
        for kind in ("pages", "amended"):
            for key in self._metadata.keys(self._key(f"{kind}/")):
                found = _LAST.fullmatch(key.rpartition("/")[2])
                if found and int(found[1], 16) < record.purged_below:
                    self._metadata.delete(key)
                    gone.append(key)
        return gone

    # objects -------------------------------------------------------------------------------------

    def _paged(self, record: Record, number: int) -> Block:
        blocks: tuple[Block, ...] = record.recent
        place = bisect_left(record.pages, number, key=lambda page: page.last)
        if place < len(record.pages):
            blocks = self._page(record.pages[place])
        at = bisect_left(blocks, number, key=lambda block: block.number)
        if number < record.purged_below or at == len(blocks) or blocks[at].number != number:
            raise MissingError(f"{self._name} has no sealed block {number}", path=self._name)
        return blocks[at]

    def _amended(self, block: Block) -> tuple[tuple[Kept, Amended] | None, Block]:
        key = self._amended_key(block.number)
        try:
            kept = self._metadata.get(key)
        except MissingError:
            return None, block
        with self._placed(key):
            amended = decode_amended(kept.data)
            if amended.block.number != block.number:
                raise DamagedEntry("it is of another block", found=amended.block.number)
        return (kept, amended), amended.block

    def _put_page(self, page: PageRef, data: bytes) -> None:
        try:
            self._metadata.cas(self._page_key(page), None, data)
        except Conflict:  # Its name is that of its bytes: the same one was put before.
            self._page(page)

    def _page(self, page: PageRef) -> tuple[Block, ...]:
        known = self._pages.get(page.digest)
        if known is None:
            key = self._page_key(page)
            data = self._page_data(key)
            with self._placed(key):
                found = blake3.blake3(data).digest()[: DIGEST_BYTES // 2]
                if found != page.digest:
                    raise DamagedEntry(
                        "a page is not the one that the record names",
                        expected=page.digest.hex(),
                        found=found.hex(),
                    )
                known = decode_page(data)
            self._pages[page.digest] = known
            while len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)
        self._pages.move_to_end(page.digest)
        return known

    def _page_data(self, key: str) -> bytes:
        try:
            return self._metadata.get(key).data
        except MissingError as error:  # Never told as blocks that are not there.
            raise RemoteError(
                f"{key} in {self._metadata.place} is not there, and a record names it",
                path=key,
                retryable=True,
                hint="it was purged since: read the record again; or the metadata lost it",
            ) from error

    def _key(self, name: str) -> str:
        return f"{self._name}/{name}"

    def _page_key(self, page: PageRef) -> str:
        return self._key(f"pages/{page.first:016x}-{page.last:016x}-{page.digest.hex()}")

    def _amended_key(self, number: int) -> str:
        return self._key(f"amended/{number:016x}")

    @contextmanager
    def _placed(self, key: str) -> Iterator[None]:
        """Name the object in what is said of its bytes."""
        try:
            yield
        except DamageError as error:
            raise error.at(f"{self._metadata.place}/{key}") from error
        except VersionError as error:
            where = f"{self._metadata.place}/{key}"
            raise VersionError(f"{where}: {error.message}", hint=error.hint) from error


def _end(block: Block | PageRef) -> int:
    return block.end
