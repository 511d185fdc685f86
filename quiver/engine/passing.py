"""Whether a subscriber that takes bundles in their order passes over any: for who must not.

Or has passed some already that did not come to who asks: it served another one before.

And whether there can be bundles up to a place at all, which a store that was put back has not.

Bundles that were nacked, or that the disk refused to read for now, come later than those behind
them; a segment whose end is damaged is not seen at all until a repair makes it sound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from quiver.acks.floor import read_floor
from quiver.engine.desk import Desk
from quiver.engine.numbers import core_folder
from quiver.engine.start import Position
from quiver.errors import DamageError, MissingError
from quiver.segment import parse_segment_name, read_info

__all__ = ["acked_from", "next_segment", "unreadable_between", "waiting_between"]


def waiting_between(desk: Desk, name: str, first: Position, *, stop: Position) -> Position | None:
    """Find the first bundle from ``first`` up to ``stop`` without an outcome; needs the lock."""
    progress = desk.registry.progress(name)
    for segment_seq in progress.open_segments:
        if segment_seq > stop.segment_seq:
            return None
        if segment_seq < first.segment_seq:
            continue
        begin = first.bundle_index if segment_seq == first.segment_seq else 0
        end = progress.bundle_count(segment_seq)
        if segment_seq == stop.segment_seq:
            end = min(end, stop.bundle_index)
        for index, _ in progress.open_within(segment_seq, begin, end - begin):
            return Position(segment_seq, index)
    return None


def unreadable_between(desk: Desk, first: int, stop: int) -> DamageError | None:
    """Say why a segment from number ``first`` up to ``stop`` is not known; None if none is there.

    One look at the folder, and at each file there that the catalogue does not have.
    """
    folder = f"{core_folder(desk.number)}/segments"
    try:
        names = [stat.name for stat in desk.disk.list_dir(folder) if stat.is_file]
    except MissingError:
        return None
    with desk.lock:
        known = {info.segment_seq for info in desk.catalog}
    for name in sorted(names):
        number = parse_segment_name(name)
        if number is None or not first <= number < stop or number in known:
            continue
        try:
            read_info(desk.disk, f"{folder}/{name}")
        except DamageError as error:
            return error
        except MissingError:
            continue  # It was deleted meanwhile.
    return None


def acked_from(desk: Desk, name: str, first: Position, *, slot_id: int) -> Position | None:
    """Find the first bundle from ``first`` on that has its outcome, and rows in a slot.

    One that cannot be read does not count: nobody had it.
    """
    with desk.lock:
        progress = desk.registry.progress(name)
        runs = [
            (seq, max(begin, first.bundle_index) if seq == first.segment_seq else begin, begin + n)
            for seq, _ in progress.segments()
            if seq >= first.segment_seq
            for begin, n in progress.resolved_runs(seq)
        ]
    for seq, begin, stop in runs:
        with suppress(DamageError, MissingError):
            for index in _with_rows(desk, seq, range(begin, stop), slot_id=slot_id):
                return Position(seq, index)
    return None


def _with_rows(desk: Desk, segment_seq: int, bundles: range, *, slot_id: int) -> Iterator[int]:
    """Go through the bundles that can be read and have rows."""
    with desk.lock:
        if segment_seq not in desk.catalog:
            return
        path = desk.catalog.get(segment_seq).path
    opened = desk.readers.get(segment_seq, path)
    for index in opened.reader.manifest.chunks_of(slot_id)[0].tolist():
        if index not in bundles or index in opened.reader.lost:
            continue
        with suppress(DamageError):
            if any(batch.num_rows for batch in opened.bundle(index, {slot_id}).values()):
                yield index


def next_segment(desk: Desk) -> int | None:
    """Say which number the next segment of a core has at least; None if that is not known."""
    try:
        floor, damage = read_floor(desk.disk, f"{core_folder(desk.number)}/acks")
    except MissingError:
        return None
    with desk.lock:
        newest = desk.catalog.newest_seq
    known = max(floor.next_segment_seq, 0 if newest is None else newest + 1)
    return None if damage is not None else known
