"""What may become of a record: each act gives the next one, or says why it may not be. Pure.

An act is put in place by a swap of the whole record. If somebody else was first, it is tried on the
record that he put; that is why each looks at everything again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import blake3

from quiver.chain.record.format import encode_page
from quiver.chain.record.values import (
    DIGEST_BYTES,
    PAGE_BLOCKS,
    TIME_MIN,
    Block,
    Open,
    PageRef,
    Record,
)
from quiver.chain.sealing import Sealed
from quiver.errors import FencedError, InputError, LockedError, MissingError

__all__ = [
    "KEPT_BLOCKS",
    "Claim",
    "Following",
    "abandoned",
    "check_amended",
    "claimed",
    "committed",
    "finished",
    "finished_anew",
    "paged",
    "purged",
    "with_block",
]

KEPT_BLOCKS: Final = 32
"""So many blocks stay in a record when older ones go to a page."""


class Claim(NamedTuple):
    """The right to end the open block; no two have the same epoch."""

    epoch: int
    by: str


class Following(NamedTuple):
    """Who writes the next block, and where."""

    writer: str
    locations: tuple[str, ...]


def claimed(record: Record, by: str, *, takes_over: bool = False) -> Record:
    """Claim the next epoch for ``by``, a name that nobody else ever has.

    A partition that somebody else writes, or ends, is his: LockedError, unless one takes over.
    """
    other = next((who for who in (record.sealing_by, record.writer) if who not in ("", by)), "")
    if other and not takes_over:
        raise LockedError(
            f"the partition is {other}'s", hint="wait until it ends, or take over from it"
        )
    return record._replace(change=record.change + 1, epoch=record.epoch + 1, sealing_by=by)


def committed(
    record: Record, claim: Claim, sealed: Sealed | None, *, following: Following | None
) -> Record:
    """End the open block where ``sealed`` says, and open the next one; None: leave none open.

    A block that ends empty is not recorded; its number is not used again.
    """
    _check_claim(record, claim)
    if (sealed is None) != (record.open is None):
        raise InputError("what was decided is of no block that is open")
    blocks: tuple[Block, ...] = ()
    if sealed is not None and record.open is not None and sealed.length:
        if sealed.start < record.open.start:
            raise InputError(
                f"block {record.open.number} would begin at {sealed.start}, before the end of the "
                f"one before it, {record.open.start}"
            )
        blocks = (_sealed_block(record, record.open, sealed),)
    return _followed(record, blocks, following)


def released(record: Record, by: str) -> Record:
    """End a claim that was never committed, by a claim of ``by``'s: nobody has the partition then.

    Nothing changes if it was committed meanwhile, or if a block is open, which has to be sealed.
    """
    if not record.sealing_by or record.open is not None:
        return record
    taken = claimed(record, by, takes_over=True)
    closed = committed(taken, Claim(taken.epoch, by), None, following=None)
    return closed._replace(change=record.change + 1)


def abandoned(record: Record, claim: Claim, *, following: Following | None) -> Record:
    """Give up an open block of which no location is left; somebody decided that, and it is kept."""
    _check_claim(record, claim)
    if record.open is None:
        raise InputError("no block is open")
    number, start, _ = record.open
    lost = Block(
        number,
        claim.epoch,
        start,
        start,
        length=0,
        last_seq=record.last_seq,
        rf=record.rf,
        locations=(),
        continues=_continues(record, start),
        is_abandoned=True,
    )
    return _followed(record, (lost,), following)


def with_block(record: Record, block: Block) -> Record:
    """Put a block that has other locations, or is finished, in the place of the old one.

    Raises MissingError if it is not among the recent ones.
    """
    for place, old in enumerate(record.recent):
        if old.number == block.number:
            check_amended(old, block)
            recent = (*record.recent[:place], block, *record.recent[place + 1 :])
            return record._replace(change=record.change + 1, recent=recent)
    raise MissingError(f"block {block.number} is not among the recent ones")


def check_amended(old: Block, new: Block) -> None:
    """Raise InputError if anything but locations, rows and digest changes, or rows once more."""
    same = old._replace(locations=new.locations, digest=new.digest)
    if not old.digest:
        same = same._replace(rows=new.rows)
    if new != same or not new.locations:
        raise InputError(f"block {old.number} is sealed: its copies may change, it may not")


def finished(block: Block, *, rows: int, digest: bytes) -> Block:
    """Note the segment that was made of a block; a second one has to be the same."""
    if len(digest) != DIGEST_BYTES:
        raise InputError(f"a digest has {len(digest)} bytes, not {DIGEST_BYTES}")
    if block.digest and (block.digest, block.rows) != (digest, rows):
        raise InputError(f"block {block.number} is finished already, and not the same")
    return block._replace(rows=rows, digest=digest)


def finished_anew(block: Block, *, rows: int, digest: bytes) -> Block:
    """Note another segment of the same rows: nobody has the first one any more."""
    if not block.digest or block.rows != rows or len(digest) != DIGEST_BYTES:
        raise InputError(f"block {block.number} has {block.rows:,} rows; {rows:,} are others")
    return block._replace(digest=digest)


def purged(record: Record, below: int) -> Record:
    """Let go of all blocks with smaller numbers, for good; a smaller mark changes nothing.

    Raises InputError if one of them is open.
    """
    last = record.next_number if record.open is None else record.open.number
    if below > last:
        raise InputError(f"block {last} is not sealed; up to it all could be purged")
    if below <= record.purged_below:
        return record
    return record._replace(
        change=record.change + 1,
        purged_below=below,
        recent=tuple(block for block in record.recent if block.number >= below),
        pages=tuple(page for page in record.pages if page.last >= below),
    )


def paged(record: Record) -> tuple[Record, dict[PageRef, bytes]]:
    """Move older blocks to pages, which have to be there before the record is put."""
    pages: dict[PageRef, bytes] = {}
    recent = record.recent
    while len(recent) >= KEPT_BLOCKS + PAGE_BLOCKS:
        moved, recent = recent[:PAGE_BLOCKS], recent[PAGE_BLOCKS:]
        data = encode_page(moved)
        digest = blake3.blake3(data).digest()[: DIGEST_BYTES // 2]
        first, last = moved[0], moved[-1]
        page = PageRef(first.number, last.number, first.start, last.end, len(moved), digest)
        pages[page] = data
    return record._replace(recent=recent, pages=(*record.pages, *pages)), pages


def _check_claim(record: Record, claim: Claim) -> None:
    if (record.epoch, record.sealing_by) != claim:
        raise FencedError(
            f"epoch {claim.epoch} is not {claim.by}'s any more",
            epoch=claim.epoch,
            current=record.epoch,
            hint="read the record again: somebody else took over, or this was done before",
        )


def _sealed_block(record: Record, opened: Open, sealed: Sealed) -> Block:
    return Block(
        opened.number,
        record.epoch,
        sealed.start,
        sealed.end,
        sealed.length,
        sealed.last_seq,
        record.rf,
        sealed.keep,
        continues=_continues(record, sealed.start),
    )


def _followed(record: Record, blocks: tuple[Block, ...], following: Following | None) -> Record:
    """Add the block that ended, if it did not end empty, and open the next one."""
    end = blocks[-1].end if blocks else record.end
    opened = None
    if following is not None:
        rises = record.is_rising and end > TIME_MIN
        opened = Open(record.next_number, end + rises, following.locations)
    return record._replace(
        change=record.change + 1,
        next_number=record.next_number + (opened is not None),
        end=end,
        last_seq=blocks[-1].last_seq if blocks else record.last_seq,
        writer=following.writer if following else "",
        sealing_by="",
        open=opened,
        recent=record.recent + blocks,
    )


def _continues(record: Record, start: int) -> bool:
    """Whether a block begins at the time at which the one before it ended."""
    return record.last_seq >= 0 and record.end == start
