"""The state of a store at one moment, for people."""

from __future__ import annotations

from dataclasses import dataclass

from quiver.engine.core import Core

__all__ = ["StoreInfo", "describe"]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """One line of state per station, in flow order; sizes in bytes."""

    path: str
    store_id: str
    core: int
    durability: str
    next_wal_seq: int
    wal_bytes: int
    wal_files: int
    open_bundles: int
    open_bytes: int
    segments: int
    segment_bytes: int
    next_segment_seq: int
    subscribers: tuple[str, ...]
    acks_bytes: int


def describe(core: Core, path: str) -> StoreInfo:
    """Look at each station; with the lock held."""
    waiting = core.waiting
    return StoreInfo(
        path=path,
        store_id=core.manifest.store_id,
        core=core.number,
        durability=core.config.wal.durability,
        next_wal_seq=core.next_wal_seq,
        wal_bytes=core.log.live_bytes,
        wal_files=core.log.file_count,
        open_bundles=sum(part.bundle_count for part in waiting),
        open_bytes=sum(part.payload_bytes for part in waiting),
        segments=len(core.catalog),
        segment_bytes=core.catalog.segment_bytes,
        next_segment_seq=core.next_segment_seq,
        subscribers=tuple(core.registry.names()),
        acks_bytes=core.acks.file_bytes,
    )
