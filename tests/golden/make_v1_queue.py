"""Write the golden manifests and a page, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.ship.queue.format import Footer, Item, encode_footer
from quiver.ship.queue.manifest import NewEntry, Span, decode_manifest
from quiver.ship.queue.tail import Batch

FOLDER = Path(__file__).parent / "v1" / "queue"
STORE_ID = bytes(range(16))
PAGE_NAME = "01ARYZ6S410000000000000000.page"
TIME_MS = 1_700_000_000_000

REFERENCE = bytes.fromhex(
    "28000000 0700000000000000 0900 642f782e6261746368 01000000 00000000 0068e5cf8b010000"
    "01000000 6d 01000000 0800000000000000 0300000000000000 0100"
)
"""The example of the reference: one entry, written from its tables by nobody of ours."""


def entry(number: int) -> NewEntry:
    """Describe a batch that carries one segment of core 3."""
    items = (Item(0, TIME_MS + number, b"m"), Item(2, TIME_MS + number + 1))
    span = Span(STORE_ID, 3, number, number)
    return NewEntry(f"d/{number}.batch", items, Batch(1000 + number, 0xDEAD0000 + number), (span,))


def objects() -> dict[str, bytes]:
    """Lay out what a queue goes through: the reference's, ours behind it, paged, dequeued."""
    mixed = decode_manifest(REFERENCE).appended([entry(1), entry(2)])
    ours = decode_manifest(encode_footer(Footer(next_sequence=42, epoch=5)))
    ours = ours.appended([entry(number) for number in range(4)])
    page = ours.cut_page(PAGE_NAME, entries=1, area_bytes=1 << 20)
    paged = ours.paged(page)
    return {
        "reference.manifest": REFERENCE,
        "mixed.manifest": mixed.data,
        "ours.manifest": ours.data,
        "paged.manifest": paged.data,
        "floor.manifest": paged.dequeued(43)[0].data,
        "kept.manifest": paged.dequeued(45)[0].data,
        PAGE_NAME: page.data,
    }


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, data in objects().items():
        (FOLDER / name).write_bytes(data)
