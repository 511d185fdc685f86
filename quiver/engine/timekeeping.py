"""The times of a core's bundles, and what of them is on the disk for the next writer and readers.

::

    opening  -->  first append      -->  append ...  -->  delete        -->  close
    the last time  rule, ordered_from    stamp, took      the last time      closed
    is looked up   (timeline)            (memory)         (timeline)         (timeline)

Segments and the log have the times themselves, so that a crash takes none. The file ``timeline``
is for what was deleted, and for readers, who have to know what may still come; so is ``heartbeat``.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Final

from quiver.disk import TEMPORARY, Disk, remove, replace
from quiver.engine.core import Core
from quiver.engine.outgoing import settle
from quiver.errors import CapacityError, DamageError, InputError, MissingError
from quiver.segment import Catalog
from quiver.timeline import TIME_MAX, TIMELINE_BYTES, Saved, decode_timeline, encode_timeline

__all__ = [
    "HEARTBEAT_NAME",
    "TIMELINE_NAME",
    "begin_intake",
    "begin_times",
    "end_times",
    "heartbeat",
    "holds_run",
    "intake_ns",
    "keep_beating",
    "keep_times",
    "read_timeline",
    "start_times",
]

TIMELINE_NAME: Final = "timeline"
HEARTBEAT_NAME: Final = "heartbeat"
_RUN_FACTOR: Final = 2
"""How many times its target a segment may be so that a run of equal times is not cut."""


def read_timeline(disk: Disk, folder: str) -> Saved | None:
    """Read what was written down for a core; None if nothing was, or nothing can be believed."""
    saved = _read(disk, f"{folder}/{TIMELINE_NAME}")
    beat = None if saved is None else _read(disk, f"{folder}/{HEARTBEAT_NAME}")
    if saved is None or beat is None or beat.rule != saved.rule:
        return saved
    return saved._replace(least_ns=max(saved.least_ns, beat.least_ns))


def _read(disk: Disk, path: str) -> Saved | None:
    try:
        with closing(disk.open(path)) as file:
            return decode_timeline(file.read(0, TIMELINE_BYTES + 1))
    except (MissingError, DamageError):
        return None


def start_times(core: Core) -> None:
    """Find out what times there were, of segments and of a writer before; of the log come more.

    Without a rule of its own, who opens a core keeps to the one that it has until it appends.
    """
    remove(core.disk, core.path(TIMELINE_NAME + TEMPORARY))
    saved = core.saved_times = read_timeline(core.disk, core.folder)
    times = core.times
    if saved is not None and saved.rule != "clock":
        if times.rule == "clock":
            times.rule = "writer" if saved.rule == "writer" else "caller"
        times.least_ns = saved.least_ns
    for info in core.catalog:
        if info.ingestion_ns_max is not None:
            times.took(info.ingestion_ns_max)


def begin_times(core: Core) -> None:
    """Let readers know by which rule bundles come from now on, before the first of them does."""
    saved = core.saved_times
    rule = core.times.rule = core.config.segment.time
    if rule != "clock":
        goes_on = saved is not None and saved.rule != "clock"
        ordered_from = saved.ordered_from if saved is not None and goes_on else _ordered_from(core)
        begun = Saved(rule, False, ordered_from, _told_ns(core))
        found = core.disk.stat(core.path(HEARTBEAT_NAME))
        if found is None:
            core.disk.create(core.path(HEARTBEAT_NAME)).close()
        if not goes_on or found is None or found.size < TIMELINE_BYTES:
            # One from before the clock's rule would count again; and a full disk needs its room.
            _beat(core, begun, sync=True)
        _save(core, begun)
    elif saved is not None and saved.rule != "clock":
        _save(core, Saved("clock", False, 0, 0))
    core.has_begun_times = True


def begin_intake(core: Core) -> None:
    """Keep to the rule that the core has, whatever the caller's options say: he gives no times."""
    core.has_begun_times = True
    saved = core.saved_times
    if saved is not None and saved.closed:
        _save(core, saved._replace(closed=False))


def intake_ns(core: Core) -> int:
    """Give the time for bundles of a new segment that are taken in; later than all before.

    Where the caller says the times it is the last one: he may go on with that.
    """
    times, now_ns = core.times, core.clock.wall_ns()
    if times.rule == "caller":
        return times.least_ns if times.last_ns is not None else max(now_ns, times.least_ns)
    return times.stamp(now_ns, None)


def _ordered_from(core: Core) -> int:
    """Say from which segment on times ascend: all, unless a clock was set back, or may have been.

    What is in the log only may be in any order.
    """
    waiting = sum(part.bundle_count > 0 for part in core.waiting)
    if waiting or not _ascends(core.catalog):
        return core.next_segment_seq + waiting
    return 0


def _ascends(catalog: Catalog) -> bool:
    last_ns = -1
    for info in catalog:
        if info.ingestion_ns_min is None or info.ingestion_ns_min <= last_ns:
            return False
        last_ns = info.ingestion_ns_max or 0
    return True


def keep_times(core: Core, gone: Iterable[int | None] | None = None) -> None:
    """Make durable what only bundles up to these times tell, before they go; or all there is.

    On a full disk, which must be able to empty itself, in place and in the other file: this one
    stays whole whatever becomes of that.
    """
    saved = core.saved_times
    if saved is None or saved.rule == "clock":
        return
    if gone is None:
        settle(core)  # What the disk may still refuse is no time that there was.
    least_ns = _told_ns(core)
    if gone is not None:
        last_ns = max((ns for ns in gone if ns is not None), default=-1)
        least_ns = min(least_ns, last_ns + (core.times.rule == "writer"))
    if least_ns > saved.least_ns:
        kept = saved._replace(least_ns=least_ns)
        try:
            _save(core, kept)
        except CapacityError:
            _beat(core, kept, sync=True)
            core.has_lent_times, core.saved_times = True, kept


def end_times(core: Core) -> None:
    """Let readers know that nobody writes here any more, and how far the times are.

    On a full disk they go on waiting for who opens it next.
    """
    saved = core.saved_times
    if saved is not None and saved.rule != "clock" and not saved.closed:
        least_ns = max(saved.least_ns, _told_ns(core))
        with suppress(CapacityError):
            _save(core, saved._replace(closed=True, least_ns=least_ns))


def _told_ns(core: Core) -> int:
    """Say which time the next bundle has at least; behind the last one there is nothing to say."""
    return min(core.times.least_ns, TIME_MAX)


def _save(core: Core, saved: Saved) -> None:
    replace(core.disk, core.path(TIMELINE_NAME), encode_timeline(saved))
    core.saved_times = saved
    core.has_lent_times = False


def _beat(core: Core, saved: Saved, *, sync: bool = False) -> None:
    with closing(core.disk.open(core.path(HEARTBEAT_NAME), writable=True)) as file:
        file.write(0, encode_timeline(saved))
        if sync:
            file.sync()


def heartbeat(core: Core, through_ns: int | None) -> int:
    """Promise that nothing comes of this time or before, and give it; not kept by a power cut.

    What was taken is in the log first, for readers to find.
    """
    rule = core.config.segment.time
    if rule == "clock" or (through_ns is None) == (rule == "caller"):
        raise InputError(
            f"a heartbeat of partition {core.number}, whose segment.time is {rule!r}",
            hint="heartbeat() with 'writer'; heartbeat(time) with 'caller', who alone knows it",
        )
    if not core.has_begun_times:
        begin_times(core)
    settle(core)
    core.times.promise(max(core.clock.wall_ns(), 0) if through_ns is None else through_ns)
    saved = core.saved_times
    if saved is not None:
        if core.has_lent_times:
            _save(core, saved)
        _beat(core, saved._replace(least_ns=_told_ns(core)))
    return _told_ns(core) - 1


def keep_beating(core: Core) -> None:
    """Send a heartbeat at each tick, where the store knows the time and readers rely on it."""
    is_writer = core.config.segment.time == "writer" and core.has_begun_times
    if is_writer and not core.outgoing:
        heartbeat(core, None)


def holds_run(core: Core) -> bool:
    """Whether what is full stays open while bundles of the same time may come: no block ends there.

    Up to twice the size of a segment; what is old is sealed all the same.
    """
    opened, config = core.open_segment, core.config.segment
    return (
        core.times.rule == "caller"
        and not opened.is_at_limit
        and opened.payload_bytes < _RUN_FACTOR * config.target_size
        and opened.stream_count < _RUN_FACTOR * config.max_streams
    )
