"""Which segments are too old: the store clock of one core, read at opening and kept by the tick."""

from __future__ import annotations

from typing import Final

from quiver.disk import replace
from quiver.engine.core import Core
from quiver.errors import CapacityError, DamageError, MissingError, StorageError, VersionError
from quiver.retention import Ages, Saved, saved_from_times
from quiver.retention.format import AGES_BYTES_MAX, decode_ages, encode_ages
from quiver.segment import Catalog
from quiver.units import SECOND

__all__ = ["AGES_NAME", "expired_segments", "keep_ages", "open_ages", "save_ages"]

AGES_NAME: Final = "ages"
_HOUR_NS: Final = 3600 * SECOND


def open_ages(core: Core) -> Ages | None:
    """Go on with the store clock; None if nothing is ever too old."""
    limit_ns = int(core.config.retention.max_retain_after_ingestion_hours * _HOUR_NS)
    if not limit_ns:
        return None
    saved = _read(core)
    if saved is None:
        saved = saved_from_times(_times(core.catalog), limit_ns)
    return Ages(limit_ns, saved, core.clock.wall_ns(), core.clock.monotonic_ns())


def _read(core: Core) -> Saved | None:
    """Read the file; None if there is none, or nothing to be believed: it is a hint."""
    try:
        file = core.disk.open(core.path(AGES_NAME))
    except MissingError:
        return None
    except StorageError as error:  # A link for instance, which is not followed.
        core.events.warning("retention.ages_refused", error=error)
        return None
    try:
        return decode_ages(file.read(0, AGES_BYTES_MAX + 1))
    except (DamageError, VersionError) as error:
        core.events.warning("retention.ages_refused", error=error)
        return None
    finally:
        file.close()


def _times(catalog: Catalog) -> list[tuple[int, int]]:
    known = [(info.segment_seq, info.ingestion_ns_max) for info in catalog]
    return [(seq, wall_ns) for seq, wall_ns in known if wall_ns is not None]


def keep_ages(core: Core) -> None:
    """Look at the clocks, and write down how far it is if that is due."""
    ages, clock = core.ages, core.clock
    if ages is None:
        return
    ages.observe(clock.wall_ns(), clock.monotonic_ns())
    if ages.note(core.next_segment_seq, clock.monotonic_ns()):
        save_ages(core)


def save_ages(core: Core) -> None:
    """Make durable what the store clock says, if there is one, and which segments there are.

    A full disk keeps the file as it was: what it says less makes segments younger, never older.
    """
    ages, clock = core.ages, core.clock
    if ages is None:
        return
    # A store that is open for less than a tick, as who adopts one, marks its segments as well.
    ages.note(core.next_segment_seq, clock.monotonic_ns())
    saved = ages.to_save(clock.wall_ns(), clock.monotonic_ns())
    try:
        replace(core.disk, core.path(AGES_NAME), encode_ages(saved))
    except CapacityError as error:
        core.events.begin("retention.ages_failed", error=error)
        return
    core.events.end("retention.ages_failed")
    ages.saved = saved


def expired_segments(core: Core) -> list[int]:
    """Give the segments that are too old by both clocks, oldest first."""
    ages = core.ages
    if ages is None:
        return []
    below = ages.ripe_below(core.clock.monotonic_ns())
    since_ns = core.clock.wall_ns() - ages.limit_ns
    found = []
    for info in core.catalog:
        if info.segment_seq >= below:
            break
        if info.ingestion_ns_max is not None and info.ingestion_ns_max <= since_ns:
            found.append(info.segment_seq)
    return found
