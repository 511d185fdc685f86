"""Where the subscribers of a store stand in each core, for verbs that look and change nothing."""

from __future__ import annotations

from contextlib import closing

from quiver.cli.inspect import core_numbers, load_segments, open_folder
from quiver.disk import Disk
from quiver.engine.standing import Pinned, Standing, Standings, Warn, read_standings
from quiver.engine.start import Start, find_start, parse_start
from quiver.errors import SubscriberError
from quiver.manifest import StoreManifest
from quiver.units import SECOND, format_duration

__all__ = ["Standing", "Standings", "age", "read_core", "read_freed", "read_store", "since"]


def read_core(disk: Disk, core: int, *, store_id: str, warn: Warn) -> Standings:
    """Read where the subscribers of a core stand; ``warn`` is told of inboxes nobody can read."""
    return read_standings(disk, core, load_segments(disk, core)[0], store_id=store_id, warn=warn)


def read_store(folder: str, name: str | None = None, *, warn: Warn) -> list[Standing]:
    """Read where the subscribers of a store stand in each core, or one of them.

    Raises SubscriberError if there is none of that name.
    """
    with closing(open_folder(folder)) as disk:
        store_id = StoreManifest.read(disk).store_id
        cores = [read_core(disk, core, store_id=store_id, warn=warn) for core in core_numbers(disk)]
    found = [standing for standings in cores for standing in standings]
    if name is None:
        return found
    chosen = [standing for standing in found if standing.name == name]
    if not chosen:
        known = ", ".join(sorted({standing.name for standing in found})) or "none"
        raise SubscriberError(f"no subscriber {name!r}", hint=f"registered: {known}")
    return chosen


def read_freed(folder: str, name: str, start: Start, *, warn: Warn) -> dict[int, Pinned]:
    """Read what may be deleted of each core once a subscriber, new or not, starts at a position.

    All bundles are in segments.
    """
    found = {}
    with closing(open_folder(folder)) as disk:
        store_id = StoreManifest.read(disk).store_id
        for core in core_numbers(disk):
            standings = read_core(disk, core, store_id=store_id, warn=warn)
            newest = standings.catalog.newest_seq
            behind = 0 if newest is None else newest + 1
            where = find_start(parse_start(start), standings.catalog, disk, next_segment_seq=behind)
            found[core] = standings.freed(name, where.segment_seq)
    return found


def since(at_ns: int | None, now_ns: int) -> float | None:
    """Say how many seconds ago a wall time was; None for a time that nobody knows."""
    return None if at_ns is None else round(max(now_ns - at_ns, 0) / SECOND, 3)


def age(at_ns: int | None, now_ns: int) -> str | None:
    """Write how long ago a wall time was, for people."""
    if at_ns is None:
        return None
    return format_duration(now_ns - at_ns) if now_ns - at_ns >= SECOND else "now"
