"""How far a subscriber is, as reports tell it."""

from __future__ import annotations

from typing import Any

from quiver.cli.output import format_time
from quiver.engine.beside import AcksState
from quiver.segment import Catalog

__all__ = ["subscriber_fields"]


def subscriber_fields(acks: AcksState, catalog: Catalog, name: str) -> dict[str, Any]:
    """Say how far a subscriber is, under the names that reports use."""
    progress = acks.registry.progress(name)
    floor = progress.floor
    oldest = catalog.get(floor).ingestion_ns_min if floor in catalog and progress.lag else None
    nacked = next(len(s.nacks) for s in acks.registry.snapshot() if s.name == name)
    return {
        "name": name,
        "subscriber_id": acks.registry.ids[name],
        "high_water_segment_seq": progress.high_water_mark,
        "lag_bundle_count": progress.lag,
        "gap_count": sum(1 for _ in progress.gaps()),
        "nacked_bundle_count": nacked,
        "oldest_open_time": format_time(oldest),
    }
