"""Segments whose end is damaged, written anew from the log, while it still has their bundles.

A footer says what a segment holds; without it the numbers of its neighbours do, or the floor if it
is the newest. They come back under their own segment number and in their own places, so outcomes
still fit. Where that is not certain nothing is made up: the file is in quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable

from quiver.acks import Floor
from quiver.config import SegmentConfig
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.engine.mending import logged_bundles
from quiver.engine.progress import progress_of
from quiver.manifest import StoreManifest
from quiver.segment import Catalog, SegmentLabel, write_segment

__all__ = ["rebuild_segments"]


def rebuild_segments(
    disk: Disk,
    number: int,
    manifest: StoreManifest,
    *,
    catalog: Catalog,
    damaged: Iterable[int],
    floor: Floor,
    config: SegmentConfig,
) -> int:
    """Write what can be had of damaged segments anew, add it to the catalogue, and count it.

    A copy of each must be in quarantine: a segment that is written takes the place of the file.
    """
    count = 0
    for segment_seq in sorted(damaged):
        span = _span(catalog, segment_seq, floor)
        wanted = {wal_seq: wal_seq for wal_seq in span}
        found = logged_bundles(
            disk, number, wanted, slots=manifest.slots, digest=manifest.layout_digest
        )
        if not span or len(found) < len(span):
            continue
        label = SegmentLabel(
            segment_seq=segment_seq,
            store_id=manifest.store_id,
            core=number,
            slots=manifest.slots,
            wal_generation=0,
            wal_offset=0,
        )
        bundles = [found[wal_seq] for wal_seq in span]
        folder = f"{core_folder(number)}/segments"
        table = progress_of(bundles)
        info = write_segment(
            disk, folder, bundles, label=label, config=config, progress=table.encode()
        )
        catalog.add(info)
        count += 1
    return count


def _span(catalog: Catalog, segment_seq: int, floor: Floor) -> range:
    """Numbers that a segment must have held, as far as its neighbours tell; else none."""
    infos = {info.segment_seq: info for info in catalog}
    before, behind = infos.get(segment_seq - 1), infos.get(segment_seq + 1)
    first = 0 if segment_seq == 0 else None
    if before is not None and before.wal_seq_last is not None:
        first = before.wal_seq_last + 1
    end = None if behind is None else behind.wal_seq_first
    if behind is None and floor.next_segment_seq == segment_seq + 1:
        end = floor.next_wal_seq
    return range(0) if first is None or end is None else range(first, end)
