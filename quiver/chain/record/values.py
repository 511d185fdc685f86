"""A partition's record and its blocks as values, and what of them may not be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = [
    "COUNT_MAX",
    "DIGEST_BYTES",
    "LOCATIONS_MAX",
    "NUMBER_MAX",
    "PAGE_BLOCKS",
    "TIME_MAX",
    "TIME_MIN",
    "Amended",
    "Block",
    "Open",
    "PageRef",
    "Record",
    "faulty_block",
    "faulty_blocks",
    "faulty_record",
]

NUMBER_MAX: Final = (1 << 63) - 1
TIME_MIN: Final = -(1 << 63)
TIME_MAX: Final = (1 << 63) - 1
COUNT_MAX: Final = (1 << 16) - 1
PAGE_BLOCKS: Final = 256
LOCATIONS_MAX: Final = 16
DIGEST_BYTES: Final = 32


class Block(NamedTuple):
    """A sealed block."""

    number: int
    epoch: int
    """In which it was sealed."""
    start: int
    """Ingestion time of its first entry in ns."""
    end: int
    length: int
    """Bytes of its entries."""
    last_seq: int
    rf: int
    """So many copies it should have."""
    locations: tuple[str, ...]
    continues: bool = False
    """Its first entry has the time of the last one before it."""
    is_abandoned: bool = False
    """All who had it are lost, and somebody said so: there are no entries."""
    rows: int = 0
    digest: bytes = b""
    """BLAKE3 of the finished segment; empty as long as none is finished."""


class Open(NamedTuple):
    """The block that is written to."""

    number: int
    start: int
    """No entry of it is older."""
    locations: tuple[str, ...]


class PageRef(NamedTuple):
    """A page of older blocks."""

    first: int
    last: int
    start: int
    end: int
    block_count: int
    digest: bytes
    """The first 16 bytes of the BLAKE3 of its bytes."""


class Record(NamedTuple):
    """All that is agreed on about one partition."""

    change: int = 1
    """Counts each time that it was put, so that no two states have the same bytes."""
    epoch: int = 0
    next_number: int = 0
    """Of the next block; never goes back."""
    purged_below: int = 0
    """Blocks with smaller numbers are gone for good; never goes back."""
    end: int = TIME_MIN
    """Ingestion time of the last entry that was ever sealed, also if it is purged."""
    last_seq: int = -1
    """``wal_seq`` of that entry."""
    rf: int = 2
    is_rising: bool = True
    """Each entry is later than the one before it; False: or has the same time."""
    writer: str = ""
    sealing_by: str = ""
    """Who claimed the epoch, until he commits."""
    open: Open | None = None
    recent: tuple[Block, ...] = ()
    pages: tuple[PageRef, ...] = ()


class Amended(NamedTuple):
    """A block as it is since its page was written."""

    change: int
    block: Block


def faulty_record(record: Record) -> str:
    """Say what of a record may not be; empty if nothing."""
    numbers = (record.change, record.epoch, record.next_number, record.purged_below)
    if not all(0 <= number <= NUMBER_MAX for number in numbers) or not record.change:
        return "a number is out of range"
    if record.purged_below > record.next_number or not 1 <= record.rf <= LOCATIONS_MAX:
        return "rf or purged_below is out of range"
    if len(record.recent) > COUNT_MAX or len(record.pages) > COUNT_MAX:
        return "it has too many blocks"
    if not (TIME_MIN <= record.end <= TIME_MAX and -1 <= record.last_seq <= NUMBER_MAX):
        return "end or last_seq is out of range"
    return (
        faulty_blocks(record.recent)
        or _faulty_pages(record)
        or _faulty_recent(record)
        or _faulty_open(record)
    )


def _faulty_pages(record: Record) -> str:
    last, end = -1, TIME_MIN
    for page in record.pages:
        if not last < page.first <= page.last or not end <= page.start <= page.end:
            return f"page {page.first} is out of order"
        if not 1 <= page.block_count <= PAGE_BLOCKS or len(page.digest) != DIGEST_BYTES // 2:
            return f"page {page.first} has another size"
        if not record.purged_below <= page.last < record.next_number or page.end > record.end:
            return f"page {page.first} is purged, or not yet"
        last, end = page.last, page.end
    return ""


def _faulty_recent(record: Record) -> str:
    last, end = (record.pages[-1].last, record.pages[-1].end) if record.pages else (-1, TIME_MIN)
    for block in record.recent:
        if not max(last + 1, record.purged_below) <= block.number < record.next_number:
            return f"block {block.number} is out of order"
        if not end <= block.start <= block.end <= record.end:
            return f"block {block.number} begins before the one before it ends"
        if block.epoch > record.epoch or block.last_seq > record.last_seq:
            return f"block {block.number} is ahead of the record"
        last, end = block.number, block.end
    return ""


def _faulty_open(record: Record) -> str:
    opened = record.open
    if opened is None:
        return ""
    last = record.pages[-1].last if record.pages else -1
    last = record.recent[-1].number if record.recent else last
    if not max(last + 1, record.purged_below) <= opened.number < record.next_number:
        return "the open block is out of order"
    if not record.end <= opened.start <= TIME_MAX:
        return "the open block begins before the one before it ends"
    return _faulty_locations(opened.locations) or ("" if opened.locations else "nobody has it")


def faulty_blocks(blocks: Sequence[Block]) -> str:
    """Say what of blocks in a row may not be; empty if nothing."""
    before: Block | None = None
    sound: tuple[str, ...] = ()
    for block in blocks:
        if fault := faulty_block(block, sound):
            return fault
        sound = block.locations
        if before is not None:
            if block.number <= before.number:
                return f"block {block.number} is out of order"
            if block.start < before.end or block.last_seq < before.last_seq:
                return f"block {block.number} begins before the one before it ends"
        before = block
    return ""


def faulty_block(block: Block, sound: tuple[str, ...] = ()) -> str:
    """Say what of a block may not be; empty if nothing. Locations that are ``sound`` are right."""
    number, epoch, start, end, length, last_seq, rf, locations, _, is_abandoned, rows, digest = (
        block
    )
    most = NUMBER_MAX  # Hundreds are looked at for one seek by time: loops would take longer.
    if not (0 <= number <= most and 0 <= epoch <= most):
        return f"block {number} has a number out of range"
    if not (0 <= length <= most and 0 <= rows <= most):
        return f"block {number} has a number out of range"
    if not TIME_MIN <= start <= end <= TIME_MAX or not 1 <= rf <= LOCATIONS_MAX:
        return f"block {number} has times or rf out of range"
    if not -1 <= last_seq <= most or (digest and len(digest) != DIGEST_BYTES):
        return f"block {number} has last_seq or digest out of range"
    if is_abandoned != (length == 0) or is_abandoned == bool(locations):
        return f"block {number} is empty, or nobody has it"
    return "" if locations is sound else _faulty_locations(locations)


def _faulty_locations(locations: tuple[str, ...]) -> str:
    if len(locations) > LOCATIONS_MAX:
        return f"{len(locations)} locations"
    if len(set(locations)) != len(locations) or "" in locations:
        return "a location is listed twice, or has no name"
    return ""
