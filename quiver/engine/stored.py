"""Recovered bundles: in the log and not in memory, until they become a segment.

A recovery checks each entry and keeps only where it is. Before the segment is written the entry is
read again, and must be what it was; so a disk that rots or fails in between costs what it destroyed
and nothing else, and no memory is held for the rest.

Decoding is left until then as well, since it costs more than all the rest of a recovery. The
checksum says that an entry is what its writer wrote: what cannot be decoded is another writer's
fault or a hostile file. With the policy ``strict`` it is decoded, and refused, at once.
"""

from __future__ import annotations

from quiver.config import LimitsConfig
from quiver.disk import save_bytes
from quiver.engine.core import Core, Sealed
from quiver.engine.log_files import LogFiles
from quiver.engine.progress import progress_of
from quiver.errors import DamagedEntry, DamageError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle, StoredBundle
from quiver.segment import OpenSegment

__all__ = ["check_readable", "fetch_stored"]


def check_readable(core: Core, bundle: EncodedBundle, limits: LimitsConfig) -> None:
    """Raise DamagedEntry unless every payload of a bundle can be decoded."""
    try:
        for payload in bundle.payloads:
            if payload.slot_id not in core.manifest.slots:
                raise DamagedEntry("a bundle has an unknown slot", found=payload.slot_id)
            decode_stream(payload.data, rows=payload.row_count, limits=limits)
        if not bundle.payloads:
            raise DamagedEntry("a bundle has no slot")
    except DamageError as error:
        raise DamagedEntry(
            f"bundle {bundle.wal_seq} cannot be decoded: {error.message}",
            path=core.disk.locate(core.path("wal")),
            offset=error.offset,
            expected=error.expected,
            found=error.found,
        ) from error


def fetch_stored(core: Core, sealed: Sealed) -> None:
    """Bring the recovered bundles of a sealed segment into memory; damaged ones go to quarantine.

    Called without the lock: the log grows and rotates meanwhile. Each damaged bundle is reported in
    ``core.report``, which grows by that after the opening. Raises StorageError if the log cannot be
    read; then everything is as before.
    """
    limits = core.config.limits.for_reading()
    before = sealed.content
    sound = OpenSegment(core.config.segment)
    found: list[DamageError] = []
    with LogFiles(core, before.bundles) as files:
        for place, bundle in enumerate(before.bundles):
            try:
                whole = bundle
                if isinstance(whole, StoredBundle):
                    whole = files.fetch(place, whole)
                    check_readable(core, whole, limits)
            except DamagedEntry as error:
                name = f"bundle-{bundle.wal_seq}.bin"
                save_bytes(core.disk, core.path("quarantine"), name, data=files.last, error=error)
                found.append(error)
            else:
                sound.add(whole, before.opened_ns or 0)
    with core.lock:
        sealed.content = sound
        if found:
            # A bundle and what it says of its source go together.
            sealed.progress = progress_of(b for b in sound.bundles if isinstance(b, EncodedBundle))
            core.report.damage += found
            core.report.replayed_bundles -= len(found)
            core.metrics.add("quiver.damage", len(found), label="wal")
            if hasattr(core, "log"):  # Otherwise the opening tells, of all that it found.
                for damage in found:
                    core.events.warning(
                        "recovery.damage", path=damage.path, offset=damage.offset, error=damage
                    )
