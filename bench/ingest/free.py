"""The whole path with segments that cost nothing: how far making them cheaper could ever lead.

Bundles are encoded, checked, logged, synced, sealed and registered as always, and the log is given
back; but behind the first segment, which is whole, files are one byte long and nothing is prepared
for them. Nobody could read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from bench.ingest.ours import Bundles, Whole, whole
from quiver.disk import SEALED_MODE, Disk, write_new
from quiver.engine import scribe, sealed
from quiver.payload import EncodedBundle
from quiver.segment import SegmentInfo, SegmentLabel, segment_name

__all__ = ["whole_for_free"]


def whole_for_free(folder: Path, bundles: Bundles) -> Whole:
    """Do what ``whole`` does, without the work on segments."""
    with _free_segments():
        return whole(folder, bundles)


@contextmanager
def _free_segments() -> Iterator[None]:
    first: list[SegmentInfo] = []
    write = sealed.write_segment

    def pretend(
        disk: Disk,
        folder: str,
        bundles: Sequence[EncodedBundle],
        *,
        label: SegmentLabel,
        **how: Any,
    ) -> SegmentInfo:
        if not first:
            first.append(write(disk, folder, bundles, label=label, **how))
            return first[0]
        path = f"{folder}/{segment_name(label.segment_seq)}"
        write_new(disk, path, [b"x"], mode=SEALED_MODE)
        return replace(
            first[0],
            path=path,
            segment_seq=label.segment_seq,
            bundle_count=len(bundles),
            wal_seq_first=bundles[0].wal_seq,
            wal_seq_last=bundles[-1].wal_seq,
            wal_generation=label.wal_generation,
            wal_offset=label.wal_offset,
        )

    with (
        mock.patch.object(sealed, "write_segment", pretend),
        mock.patch.object(scribe, "look_ahead", return_value=None),
    ):
        yield
