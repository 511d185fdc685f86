"""A manifest as a value: its bytes, and the manifest that each change makes of it.

Old entries are never decoded for an append: their bytes are copied. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import CapacityError, DamagedEntry, InputError, TornEntry, VersionError
from quiver.ship.queue.format import (
    COUNT_MAX,
    FOOTER,
    SEQUENCE_MAX,
    U32,
    VERSION,
    Footer,
    Item,
    RawEntry,
    decode_body,
    decode_footer,
    encode_body,
    encode_footer,
    walk,
)
from quiver.ship.queue.table import (
    EMPTY,
    PAGED_VERSION,
    PageRef,
    Table,
    decode_table,
    encode_page,
    encode_table,
)
from quiver.ship.queue.tail import (
    Batch,
    Mark,
    Tail,
    decode_tail,
    last_entry,
    mark_list,
    mark_map,
    sound_tail,
    with_tail,
)

__all__ = ["NEW", "CutPage", "Entry", "Manifest", "NewEntry", "Span", "decode_manifest", "entry_at"]


class Span(NamedTuple):
    """Segments of one core, ``first`` to ``last``, that an entry brings into the queue."""

    store_id: bytes
    core: int
    first: int
    last: int


class NewEntry(NamedTuple):
    """What is to be appended: where the batch is, from the root of the store, and what is in it."""

    location: str
    items: Sequence[Item] = ()
    batch: Batch | None = None
    """Size and checksum of the batch, so that its reader can tell damage."""
    spans: Sequence[Span] = ()
    """Segments in it; the entry is left out if the queue has had them all."""


class Entry(NamedTuple):
    """One batch in the queue."""

    sequence: int
    location: str
    items: tuple[Item, ...] = ()
    batch: Batch | None = None
    """None if somebody else wrote the entry."""
    marks: tuple[Mark, ...] = ()
    is_acked: bool = False
    """It is dequeued and stays for its marks alone: nobody is to read it again."""


class CutPage(NamedTuple):
    """The oldest entries in line, as the page object that may take their place."""

    data: bytes
    ref: PageRef
    area_bytes: int
    """How many bytes at the beginning of the area it takes the place of."""


@dataclass(frozen=True)
class Manifest:
    """One state of the queue. ``area`` are the entries in line, in ``data`` from ``area_start``."""

    data: bytes
    footer: Footer
    area: memoryview
    area_start: int = 0
    table: Table = EMPTY

    @cached_property
    def newest(self) -> tuple[RawEntry, Tail, int] | None:
        """The entry that speaks for the queue, its tail, and where that begins; None if none does.

        That is the last one, found from its end. Where somebody else wrote that, it is looked for.
        """
        if not self.footer.entry_count:
            return None
        last = last_entry(self.area, self.footer)
        if last is not None:
            found = sound_tail(self.area, last, base=self.area_start)
            return None if found[0].is_plain else (last, *found)
        newest = None
        for raw in self.raw_entries():
            if (other := _tail_of(self, raw)) and not other[0].is_plain:
                newest = (raw, *other)
        return newest

    @property
    def count(self) -> int:
        """How many entries are waiting, in line and in pages."""
        return self.table.entry_count + self.footer.entry_count - self.is_kept

    @property
    def is_kept(self) -> bool:
        """Whether the last entry is dequeued and stays for its marks alone."""
        return self.newest is not None and self.newest[1].is_acked

    @property
    def marks(self) -> dict[tuple[bytes, int], int]:
        """What is in the queue or was: by store and core, the highest segment."""
        return mark_map(self.newest[1].marks) if self.newest is not None else {}

    def raw_entries(self) -> Iterator[RawEntry]:
        """Go through the entries in line; raises DamageError behind the last good one."""
        footer = self.footer
        return walk(
            self.area,
            footer.entry_count,
            next_sequence=footer.next_sequence,
            base=self.area_start,
        )

    def entry(self, raw: RawEntry) -> Entry:
        """Decode an entry in line."""
        return entry_at(self.area, raw, base=self.area_start)

    def batch_bytes(self) -> int:
        """Add up the batches that wait, as far as entries say how large they are; of a page all."""
        entries = (self.entry(raw) for raw in self.raw_entries())
        line = sum(e.batch.byte_count for e in entries if e.batch and not e.is_acked)
        return line + sum(page.batch_bytes for page in self.table.pages)

    def appended(self, new: Sequence[NewEntry]) -> Manifest:
        """Add entries, and to the marks what they bring; raises InputError, CapacityError."""
        footer = self.footer
        first, count = footer.next_sequence, footer.entry_count
        if first + len(new) > SEQUENCE_MAX or count + len(new) > COUNT_MAX:
            raise CapacityError(f"the queue has no numbers left above {first}")
        marks = self.marks
        parts, dropped = self._plain_area()
        for place, draft in enumerate(new):
            marks |= {(span.store_id, span.core): span.last for span in draft.spans}
            tail = Tail(draft.batch)
            if place == len(new) - 1:
                tail = tail._replace(marks=mark_list(marks))
            body = encode_body(first + place, draft.location, draft.items)
            parts.append(with_tail(body, tail))
        count += len(new) - dropped
        changed = footer._replace(entry_count=count, next_sequence=first + len(new))
        return _made(parts, changed, self.table)

    def dequeued(self, through: int) -> tuple[Manifest, int]:
        """Remove entries up to a number; gives also how many. The same manifest if none is."""
        if through >= self.footer.next_sequence:
            raise InputError(
                f"entry {through} is not in the queue yet, the next is {self.footer.next_sequence}",
                hint="the number is of another queue, or the manifest was lost",
            )
        left = tuple(page for page in self.table.pages if page.last > through)
        if left:
            table = Table(max(self.table.floor, through + 1), left)
            removed = self.table.entry_count - table.entry_count
            same = table == self.table
            return (self if same else _made([self.area], self.footer, table)), removed
        gone = [raw for raw in self.raw_entries() if raw.sequence <= through]
        removed = self.table.entry_count + len(gone)
        if not removed or (len(gone) == self.footer.entry_count == 1 and self.is_kept):
            return self, 0
        return self._without(gone), removed - (bool(gone) and self.is_kept)

    def with_epoch(self, epoch: int) -> Manifest:
        """Change the epoch; entries stay as they are."""
        return _made([self.area], self.footer._replace(epoch=epoch), self.table)

    def cut_page(self, name: str, *, entries: int, area_bytes: int) -> CutPage | None:
        """Make a page of the oldest in line; None if that cannot be.

        What stays are so many entries and so many bytes at most, and the newest in any case.

        Only entries without holes between their numbers go into a page, for of these the table
        can say how many are left; and only ours, for somebody else who appends reads no pages.
        """
        least = self.footer.entry_count - entries
        end = len(self.area) - area_bytes
        raws = [
            raw
            for place, raw in enumerate(self.raw_entries())
            if (place < least or raw.start < end) and place < self.footer.entry_count - 1
        ]
        if not raws or raws[-1].sequence - raws[0].sequence != len(raws) - 1:
            return None
        if self.newest is not None and self.newest[0].start < raws[-1].end:
            return None
        cut = [self.entry(raw) for raw in raws]
        if not all(entry.batch for entry in cut):
            return None
        size = raws[-1].end
        data, checksum = encode_page(self.area[:size], len(raws))
        times = [item.ingestion_time_ms for entry in cut for item in entry.items]
        ref = PageRef(
            name,
            first=raws[0].sequence,
            last=raws[-1].sequence,
            entry_count=len(raws),
            object_bytes=len(data),
            crc32c=checksum,
            batch_bytes=sum(entry.batch.byte_count for entry in cut if entry.batch),
            oldest_ms=min(times, default=0),
        )
        return CutPage(data, ref, size)

    def paged(self, page: CutPage) -> Manifest | None:
        """Put a page in the place of its entries; None if they are not the oldest in line."""
        if self.area[: page.area_bytes] != page.data[: page.area_bytes]:
            return None
        footer = self.footer._replace(entry_count=self.footer.entry_count - page.ref.entry_count)
        table = Table(self.table.floor, (*self.table.pages, page.ref))
        return _made([self.area[page.area_bytes :]], footer, table)

    def _plain_area(self) -> tuple[list[bytes | memoryview], int]:
        """Give the area without marks, and how many entries were left out with them."""
        if self.newest is None:
            return [self.area], 0
        raw, tail, tail_start = self.newest
        before, after = self.area[: raw.start], self.area[raw.end :]
        if tail.is_acked:
            return [before, after], 1
        core = self.area[raw.start + U32.size : tail_start]
        rest = tail.plain()
        return [before, with_tail(core, None if rest == Tail() else rest), after], 0

    def _without(self, gone: Sequence[RawEntry]) -> Manifest:
        """Leave out the oldest entries, all pages, and never the marks."""
        cut = gone[-1].end if gone else 0
        footer = self.footer._replace(entry_count=self.footer.entry_count - len(gone))
        marks = self.newest[1].marks if self.newest is not None else ()
        if not marks or (self.newest is not None and self.newest[0].start >= cut):
            return _made([self.area[cut:]], footer, EMPTY)
        last = gone[-1] if cut == len(self.area) else list(self.raw_entries())[-1]
        found = _tail_of(self, last)
        tail, tail_start = found or (Tail(), last.end)
        is_acked = not footer.entry_count
        core = self.area[last.start + U32.size : tail_start]
        kept = with_tail(core, tail._replace(marks=marks, is_acked=is_acked))
        before = self.area[cut : last.start] if footer.entry_count else b""
        return _made([before, kept], footer._replace(entry_count=max(footer.entry_count, 1)), EMPTY)


def decode_manifest(data: bytes) -> Manifest:
    """Read a manifest: its footer and its table; entries are looked at when they are asked for.

    Raises TornEntry, DamagedEntry, and VersionError for another version.
    """
    footer = decode_footer(data)
    view = memoryview(data)
    if footer.version == VERSION:
        return Manifest(data, footer, view[: -FOOTER.size])
    if footer.version != PAGED_VERSION and data.startswith(b"{") and data.endswith(b"\n"):
        raise VersionError(
            "a manifest is none of a queue; it looks like that of a collection",
            hint="quiver view reads those; a queue needs a place of its own",
        )
    if footer.version != PAGED_VERSION:
        raise VersionError(
            f"a manifest has format version {footer.version}, this Quiver reads "
            f"{VERSION} and {PAGED_VERSION}",
            hint="install a newer Quiver, or the object is no manifest",
        )
    end = len(data) - FOOTER.size - U32.size
    if end < 0:
        raise TornEntry("a manifest with pages is too short", found=len(data))
    (expected,) = U32.unpack_from(view, end)
    found = crc32c(view[-FOOTER.size :], crc32c(view[:end]))
    if found != expected:
        raise DamagedEntry(
            "the checksum of a manifest is wrong",
            offset=end,
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    table, size = decode_table(view[:end])
    return Manifest(data, footer, view[size:end], size, table)


def entry_at(area: memoryview, raw: RawEntry, *, base: int = 0) -> Entry:
    """Decode an entry where it lies; raises TornEntry, DamagedEntry."""
    body = decode_body(area, raw, base=base)
    found = decode_tail(area, raw, items_end=body.end, base=base)
    tail = found[0] if found is not None else Tail()
    return Entry(
        raw.sequence, body.location, body.items, tail.batch, tail.marks, is_acked=tail.is_acked
    )


def _made(parts: Sequence[bytes | memoryview], footer: Footer, table: Table) -> Manifest:
    """Lay out a manifest; it has version 2 only while there are pages."""
    if not table.pages:
        footer = footer._replace(version=VERSION)
        data = b"".join((*parts, encode_footer(footer)))
        return Manifest(data, footer, memoryview(data)[: -FOOTER.size])
    footer = footer._replace(version=PAGED_VERSION)
    head, end = encode_table(table), encode_footer(footer)
    body = b"".join((head, *parts))
    data = b"".join((body, U32.pack(crc32c(end, crc32c(body))), end))
    area = memoryview(data)[len(head) : len(body)]
    return Manifest(data, footer, area, len(head), table)


def _tail_of(manifest: Manifest, raw: RawEntry) -> tuple[Tail, int] | None:
    area, base = manifest.area, manifest.area_start
    body = decode_body(area, raw, base=base)
    return decode_tail(area, raw, items_end=body.end, base=base)


def _new() -> Manifest:
    return decode_manifest(encode_footer(Footer()))


NEW: Final = _new()
"""What a manifest is that is not there."""
