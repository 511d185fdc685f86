"""What outlives a restart, in plain values that a checkpoint can carry."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NackSnapshot", "SegmentSnapshot", "SubscriberSnapshot"]


@dataclass(frozen=True, slots=True)
class SegmentSnapshot:
    """The resolved bundles of one segment as runs (first, count), ascending and apart."""

    segment_seq: int
    bundle_count: int
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class NackSnapshot:
    """An open bundle that was nacked: how many deliveries failed, when the next one may be."""

    segment_seq: int
    bundle_index: int
    attempt: int
    not_before_ns: int
    at_ns: int = 0
    """When that was; 0: as the subscriber was last seen, or before."""


@dataclass(frozen=True, slots=True)
class SubscriberSnapshot:
    """One subscriber. Segments below the floor are finished; one that is missing is all open."""

    subscriber_id: int
    name: str
    floor: int
    segments: tuple[SegmentSnapshot, ...] = ()
    nacks: tuple[NackSnapshot, ...] = ()
    paused: bool = False
    last_seen_ns: int = 0
    dead_letter_count: int = 0
    lease: int = 0
