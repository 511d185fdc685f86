"""Which bundles of a core are in segments, found beside a writer: up to which number, and where.

The footer of the newest segment says it. Where that one was deleted the floor in ack.log does,
which is durable before a segment goes. The floor is read before segments are listed. What is made
and deleted in between is then in neither, and its bundles count as open: they were, a moment ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quiver.acks.floor import read_floor
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.scan.snapshot import SegmentRef, list_segments
from quiver.segment import SegmentInfo, read_info
from quiver.wal import Place

__all__ = ["Coverage", "read_coverage"]


class Coverage(NamedTuple):
    """The segments of a core, and which bundles are in them or were in deleted ones."""

    segments: tuple[SegmentRef, ...]
    wal_seq: int
    """The highest number that a segment holds or held; -1 if there was none."""
    place: Place | None
    """The place of the log before which the newest segment has everything, if it is known."""
    doubt: DamageError | None
    """Damage because of which ``wal_seq`` may be too low."""


def read_coverage(disk: Disk, core: int) -> Coverage:
    """Look up what is in segments now; reads one footer and the end of ack.log.

    Raises VersionError for files of a newer format.
    """
    floor, hidden = read_floor(disk, f"{core_folder(core)}/acks")
    segments = list_segments(disk, core=core)
    info, gone, damaged = _newest(disk, segments)
    covered, place = floor.next_wal_seq - 1, None
    if info is not None and info.wal_seq_last is not None:
        covered = max(covered, info.wal_seq_last)
        place = Place(info.wal_generation or 0, info.wal_offset or 0)
    doubts = [error for seq, error in damaged if seq >= floor.next_segment_seq]
    doubt = _unknown(doubts[0]) if doubts else hidden
    return Coverage(tuple(s for s in segments if s not in gone), covered, place, doubt)


def _newest(
    disk: Disk, segments: Sequence[SegmentRef]
) -> tuple[SegmentInfo | None, set[SegmentRef], list[tuple[int, DamageError]]]:
    """Find the newest segment that says what it holds; those above it are gone or damaged."""
    gone: set[SegmentRef] = set()
    damaged: list[tuple[int, DamageError]] = []
    for segment in reversed(segments):
        try:
            info = read_info(disk, segment.path)
        except MissingError:
            gone.add(segment)
        except DamageError as error:
            damaged.append((segment.segment_seq, error))
        else:
            if info.wal_seq_last is not None:
                return info, gone, damaged
    return None, gone, damaged


def _unknown(error: DamageError) -> DamagedEntry:
    """Say that a damaged segment leaves unknown which bundles of the log it holds."""
    return DamagedEntry(
        f"which bundles are open is not known, for the newest segment is damaged: {error.message}",
        path=error.path,
        offset=error.offset,
        expected=error.expected,
        found=error.found,
        hint="scan without include_open, or open the store: its recovery deals with the damage",
    )
