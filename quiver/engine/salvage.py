"""Make a damaged store sound: what is damaged goes to quarantine, all else stays.

Every opening salvages what it meets, but it does not read streams of segments, and it leaves damage
in a log where it is until that part is given back. Here both are done at once, so that nothing
damaged is left afterwards. It may be broken off anywhere and done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quiver.acks import DROPPED_DAMAGED
from quiver.clock import Clock
from quiver.config import Config, RecoveryConfig
from quiver.disk import Disk, HeldDisk
from quiver.engine import maintenance
from quiver.engine.core import Core, core_folder, core_numbers
from quiver.engine.mending import mend_segments
from quiver.engine.migration import settle
from quiver.engine.recovery import Watch, open_core
from quiver.engine.restore import restore_manifest
from quiver.engine.saving import keep_losses, save_progress
from quiver.engine.sealed import finalize
from quiver.engine.space import delete_segments, reclaim, sync_acks, write_off_segment
from quiver.errors import DamageError
from quiver.manifest import StoreManifest

__all__ = ["salvage"]

_OPENINGS: Final = 2
"""A log with a damaged end is retired by the first, and given back by the second."""


def salvage(
    disk: Disk, *, config: Config, clock: Clock, watch: Watch | None = None
) -> list[DamageError]:
    """Salvage a store that nobody has open; give the damage that was met.

    Reads everything. Raises LockedError, VersionError, and the DamageError of a manifest that
    nothing can bring back. No segment is deleted because subscribers are through with it.
    """
    damage = restore_manifest(disk)
    met = [] if damage is None else [damage]
    for number in core_numbers(disk):
        with HeldDisk(disk, [f"{core_folder(number)}/LOCK"]) as held:
            met += _salvage_core(held, number, config, clock=clock, watch=watch)
    return met


def _salvage_core(
    disk: Disk, number: int, config: Config, *, clock: Clock, watch: Watch | None
) -> list[DamageError]:
    settle(disk, number)
    manifest = StoreManifest.read(disk)
    keep_losses(disk, number, manifest, clock=clock)
    mended = mend_segments(disk, number, manifest, config=config)
    thorough = replace(
        config,
        wal=replace(config.wal, reclaim_size=1),
        recovery=RecoveryConfig(policy="salvage"),
    )
    met = list(mended.damage)
    for opening in range(_OPENINGS):
        core = open_core(disk, number, slots=None, config=thorough, clock=clock, watch=watch)
        with core.lock:
            _tidy(core, mended.hopeless if opening == 0 else ())
        if opening == 0:
            met += core.report.damage
    return met


def _tidy(core: Core, hopeless: Sequence[int]) -> None:
    """Write segments off, make the log one and give it back, and let go of the core."""
    try:
        with core.whole():
            for segment_seq in hopeless:
                write_off_segment(core, segment_seq, DROPPED_DAMAGED)
            delete_segments(core, hopeless)
            finalize(core)
            save_progress(core)
            reclaim(core)
            sync_acks(core)
            core.log.sync_all()
    finally:
        maintenance.let_go(core)
        core.held.release()
