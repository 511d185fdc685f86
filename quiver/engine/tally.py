"""What deletion adds to the counters: segments, bundles and bytes, each by its reason."""

from __future__ import annotations

from collections.abc import Sequence

from quiver.engine.core import Core
from quiver.segment import SegmentInfo
from quiver.subscriber.bundle_set import BundleSet

__all__ = ["count_dropped", "count_evicted", "count_expired", "unresolved"]


def unresolved(core: Core, segment_seq: int) -> int:
    """Say how many bundles of a segment somebody still needs; all of them if nobody subscribed."""
    names = core.registry.names()
    if not names:
        return core.catalog.get(segment_seq).bundle_count
    needed = BundleSet()
    for name in names:
        for first, count in core.registry.progress(name).open_runs(segment_seq):
            needed.add(first, count)
    return needed.count


def count_evicted(core: Core, infos: Sequence[SegmentInfo], reason: str) -> None:
    """Count segments that went because everybody had them."""
    if infos:
        byte_count = sum(info.file_bytes for info in infos)
        core.metrics.add("quiver.retention.evicted_segments", len(infos), label=reason)
        core.metrics.add("quiver.retention.evicted_bytes", byte_count, label=reason)


def count_expired(core: Core, info: SegmentInfo) -> None:
    """Count a segment that went because it was too old, whoever had it."""
    core.metrics.add("quiver.retention.expired_segments")
    core.metrics.add("quiver.retention.expired_bundles", info.bundle_count)


def count_dropped(core: Core, reason: str, *, bundle_count: int, byte_count: int) -> None:
    """Count one segment that went although somebody needed bundles of it, if any."""
    if bundle_count:
        core.metrics.add("quiver.segment.dropped", label=reason)
        core.metrics.add("quiver.segment.dropped_bundles", bundle_count, label=reason)
        core.metrics.add("quiver.segment.dropped_bytes", byte_count, label=reason)
