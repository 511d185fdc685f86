"""The bytes of pages: objects that hold the oldest entries, and the table that names them.

::

    table     magic[4] | table_bytes u32 | floor u64 | page_count u32 | page ...
    page      first u64 | last u64 | entry_count u32 | object_bytes u32 | crc32c u32
              | batch_bytes u64 | oldest_ms i64 | name_len u16 | name
    object    entry ... | entry_count u32 | version u16 | crc32c u32 of all before | magic[4]

A manifest that begins with a table has version 2. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, TornEntry, VersionError

__all__ = [
    "EMPTY",
    "PAGE",
    "PAGED_VERSION",
    "Page",
    "PageRef",
    "Table",
    "decode_page",
    "decode_table",
    "encode_page",
    "encode_table",
]

PAGED_VERSION: Final = 2
PAGE: Final = ".page"
"""How the name of a page object ends."""

TABLE: Final = struct.Struct("<4sIQI")
PAGE_REF: Final = struct.Struct("<QQIIIQqH")
PAGE_END: Final = struct.Struct("<IHI4s")

_TABLE_MAGIC: Final = b"QVPT"
_PAGE_MAGIC: Final = b"QVPG"
_PAGE_VERSION: Final = 1
_UNSUMMED: Final = 8
"""Bytes of a page object that its checksum does not cover: itself, and the magic."""


class PageRef(NamedTuple):
    """What the table says of a page object."""

    name: str
    """Its key, beside the manifest."""
    first: int
    last: int
    entry_count: int
    object_bytes: int
    crc32c: int
    """Of the object up to its own checksum, which is the same."""
    batch_bytes: int
    """Of all batches that its entries point to, as far as their tails say."""
    oldest_ms: int
    """The least ingestion time in it; 0 if there is none."""


class Table(NamedTuple):
    """The pages of a manifest, oldest first."""

    floor: int = 0
    """Entries below it are dequeued, though a page may still hold them."""
    pages: tuple[PageRef, ...] = ()

    @property
    def entry_count(self) -> int:
        """How many entries of pages are not dequeued."""
        gone = max(self.floor - self.pages[0].first, 0) if self.pages else 0
        return sum(page.entry_count for page in self.pages) - gone


EMPTY: Final = Table()


def encode_table(table: Table) -> bytes:
    """Write the table that a manifest with pages begins with."""
    parts = [b""]
    for page in table.pages:
        name = page.name.encode()
        parts.append(PAGE_REF.pack(*page[1:], len(name)) + name)
    body = b"".join(parts)
    head = TABLE.pack(_TABLE_MAGIC, TABLE.size + len(body), table.floor, len(table.pages))
    return head + body


def decode_table(data: memoryview) -> tuple[Table, int]:
    """Read the table at the beginning of a manifest, and how long it is; raises DamageError."""
    if len(data) < TABLE.size:
        raise TornEntry("no room for a page table", expected=TABLE.size, found=len(data))
    magic, size, floor, count = TABLE.unpack_from(data)
    if magic != _TABLE_MAGIC:
        raise DamagedEntry("a page table has no magic", expected=_TABLE_MAGIC, found=magic)
    if not TABLE.size + count * PAGE_REF.size <= size <= len(data):
        raise DamagedEntry("a page table has a wrong size", expected=len(data), found=size)
    pages: list[PageRef] = []
    at = TABLE.size
    for index in range(count):
        if size - at < PAGE_REF.size:
            raise TornEntry(f"page {index} of a table is cut", offset=at)
        *numbers, name_size = PAGE_REF.unpack_from(data, at)
        at += PAGE_REF.size
        if name_size > size - at:
            raise TornEntry(f"the name of page {index} is cut", offset=at)
        try:
            name = str(data[at : at + name_size], "ascii")
        except UnicodeDecodeError as error:
            raise DamagedEntry(f"the name of page {index} is no ASCII", offset=at) from error
        page = PageRef(name, *numbers)
        if page.first > page.last or (pages and page.first <= pages[-1].last):
            raise DamagedEntry(f"page {index} is out of order", offset=at, found=page.first)
        pages.append(page)
        at += name_size
    if at != size:
        raise DamagedEntry("a page table has more than its pages", expected=at, found=size)
    return Table(floor, tuple(pages)), size


class Page(NamedTuple):
    """A page object as it was read."""

    area: memoryview
    """Its entries."""
    entry_count: int
    crc32c: int


def encode_page(entries: bytes | memoryview, entry_count: int) -> tuple[bytes, int]:
    """Write a page object of entries as they are; gives its checksum as well."""
    head = b"".join((entries, struct.pack("<IH", entry_count, _PAGE_VERSION)))
    checksum = crc32c(head)
    return head + struct.pack("<I4s", checksum, _PAGE_MAGIC), checksum


def decode_page(data: memoryview) -> Page:
    """Check a page object; raises TornEntry, DamagedEntry, VersionError."""
    start = len(data) - PAGE_END.size
    if start < 0:
        raise TornEntry("a page is too short", expected=PAGE_END.size, found=len(data))
    count, version, expected, magic = PAGE_END.unpack_from(data, start)
    if magic != _PAGE_MAGIC:
        raise DamagedEntry("a page has no magic", offset=start, expected=_PAGE_MAGIC, found=magic)
    found = crc32c(data[: len(data) - _UNSUMMED])
    if found != expected:
        raise DamagedEntry(
            "the checksum of a page is wrong",
            offset=start,
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    if version != _PAGE_VERSION:
        raise VersionError(
            f"a page has format version {version}, this Quiver reads {_PAGE_VERSION}",
            hint="install a newer Quiver",
        )
    return Page(data[:start], count, found)
