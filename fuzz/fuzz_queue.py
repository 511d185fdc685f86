"""Manifests and pages: any bytes are read, or damage is told; what is read can be changed.

::

    flags u8 | manifest or page
"""

from __future__ import annotations

import struct
from contextlib import suppress

from crc32c import crc32c

from quiver.errors import CapacityError, DamageError, InputError, VersionError
from quiver.ship.queue.format import FOOTER, walk
from quiver.ship.queue.manifest import Manifest, NewEntry, Span, decode_manifest, entry_at
from quiver.ship.queue.table import PAGED_VERSION, decode_page
from quiver.ship.queue.tail import Batch

REPAIR = 1
PAGE = 2
NEW = NewEntry("d/new.batch", (), Batch(1, 2), (Span(bytes(16), 0, 1, 1),))


def one_input(data: bytes) -> None:
    if not data:
        return
    flags, data = data[0], data[1:]
    if flags & PAGE:
        check_page(repaired_page(data) if flags & REPAIR else data)
        return
    if flags & REPAIR:
        data = repaired(data)
    try:
        manifest = decode_manifest(data)
    except (DamageError, VersionError):
        return
    assert manifest.data == data
    with suppress(DamageError, CapacityError):
        check_changes(manifest)


def repaired(data: bytes) -> bytes:
    """Give a manifest with pages its checksum."""
    end = len(data) - FOOTER.size - 4
    if end < 0 or data[-2:] != struct.pack("<H", PAGED_VERSION):
        return data
    footer = data[-FOOTER.size :]
    return data[:end] + struct.pack("<I", crc32c(footer, crc32c(data[:end]))) + footer


def repaired_page(data: bytes) -> bytes:
    return data[:-8] + struct.pack("<I4s", crc32c(data[:-8]), b"QVPG")


def read(manifest: Manifest) -> list:
    return [manifest.entry(raw) for raw in manifest.raw_entries()]


def check_changes(manifest: Manifest) -> None:
    """Append, dequeue and take over; entries that stay are the same ones."""
    entries = read(manifest)
    waiting = [entry for entry in entries if not entry.is_acked]
    marks = manifest.marks
    after = decode_manifest(manifest.appended([NEW]).data)
    *_, newest = read(after)
    assert newest.sequence == manifest.footer.next_sequence
    assert after.marks == {**marks, (bytes(16), 0): 1}
    number = entries[len(entries) // 2].sequence if entries else 0
    with suppress(InputError):
        left, _ = manifest.dequeued(number)
        left = decode_manifest(left.data)
        assert left.footer.next_sequence == manifest.footer.next_sequence
        kept = {e.sequence for e in read(left) if not e.is_acked}
        assert {e.sequence for e in waiting if e.sequence > number} <= kept
    newer = decode_manifest(manifest.with_epoch(5).data)
    assert (newer.footer.epoch, newer.area) == (5, manifest.area)


def check_page(data: bytes) -> None:
    with suppress(DamageError, VersionError):
        page = decode_page(memoryview(data))
        for raw in walk(page.area, page.entry_count):
            entry_at(page.area, raw)
