"""What a scan finds in a folder: a store of ours, or what the Rust Quiver wrote."""

from __future__ import annotations

from typing import NamedTuple

from quiver import upstream
from quiver.disk import Disk
from quiver.errors import InputError
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.payload import StoredBundle
from quiver.scan.open_bundle import OpenBundle, describe
from quiver.scan.open_log import take_snapshot
from quiver.scan.query import Query
from quiver.scan.snapshot import SegmentRef
from quiver.slots import Slot
from quiver.upstream import LoggedBundle, UpstreamFolder, slot_name

__all__ = ["Source", "find_source"]


class Source(NamedTuple):
    """A slot, the segments of the folder at one moment, and the bundles that are in none yet."""

    slot: Slot
    segments: tuple[SegmentRef, ...]
    open_bundles: tuple[OpenBundle, ...]


def find_source(disk: Disk, query: Query) -> Source:
    """Look a slot up, and list what there is.

    Raises MissingError if the folder is neither kind, InputError for a slot that it cannot have.
    Of the other implementation's folder nobody can tell one moment from the next: with open
    bundles its writer should be at rest, or one may be seen twice or not at all.
    """
    folder = upstream.find(disk) if disk.stat(MANIFEST_NAME) is None else None
    if folder is not None:
        return _find_upstream(folder, query)
    if not isinstance(query.slot, str):
        raise InputError(f"slot: {query.slot!r} is no name", hint='say slot="name"')
    manifest = StoreManifest.read(disk)
    slot = manifest.slots[query.slot]
    segments, bundles = take_snapshot(
        disk, manifest, include_open=query.include_open, slot_id=slot.slot_id
    )
    return Source(slot, segments, bundles)


def _find_upstream(folder: UpstreamFolder, query: Query) -> Source:
    slot_id = folder.slot_id(query.slot)
    bundles = (
        tuple(
            found
            for core, logged in folder.open_bundles()
            if (found := _open_bundle(core, logged, slot_id)).slot(slot_id) is not None
        )
        if query.include_open
        else ()
    )
    segments = tuple(SegmentRef(*found[:4]) for found in folder.segments)
    return Source(Slot(slot_id, slot_name(slot_id), slot_id), segments, bundles)


def _open_bundle(core: int, logged: LoggedBundle, slot_id: int) -> OpenBundle:
    """Take a bundle of the other log as one of ours, with its payload of the slot in memory."""
    stored = StoredBundle(logged.bundle.wal_seq, 0, logged.offset, logged.end - logged.offset, 0)
    return describe(core, logged.bundle, stored, kept=[slot_id])
