"""Recovered bundles whose Arrow bytes cannot be decoded: set aside before they reach a segment.

The log says with a checksum that an entry is what its writer wrote, so this is another writer's
fault or a hostile file, not bit rot. Decoding costs more than all the rest of a recovery, so what
was recovered stays encoded until it becomes a segment; with the policy ``strict`` it is decoded at
once.
"""

from __future__ import annotations

from quiver.config import LimitsConfig
from quiver.disk import save_bytes
from quiver.engine.core import Core
from quiver.errors import DamagedEntry, DamageError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle
from quiver.segment import OpenSegment

__all__ = ["check_readable", "set_unreadable_aside"]


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


def set_unreadable_aside(core: Core) -> None:
    """Decode the recovered bundles of the open segment; those that cannot be go to quarantine.

    Each is reported in ``core.report``, which grows by that after the opening.
    """
    limits = core.config.limits.for_reading()
    before = core.open_segment
    sound = OpenSegment(core.config.segment)
    found: list[DamageError] = []
    for bundle in before.bundles:
        try:
            check_readable(core, bundle, limits)
        except DamagedEntry as error:
            save_bytes(
                core.disk,
                core.path("quarantine"),
                f"bundle-{bundle.wal_seq}.bin",
                data=[payload.data for payload in bundle.payloads],
                error=error,
            )
            found.append(error)
        else:
            sound.add(bundle, before.opened_ns or 0)
    core.unchecked = 0
    if found:
        core.open_segment = sound
        core.report.damage += found
        core.report.replayed_bundles -= len(found)
        core.metrics.add("quiver.damage.found", len(found))
