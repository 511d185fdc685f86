"""What must go, in which order: a list of actions from the bytes in use and the configured cap.

::

    1  finished segments                         Evict, always
    2  still over the cap, by policy
         backpressure   ask for early finalize   FinalizeEarly, Throttle
         drop_oldest    unfinished segments,     Drop
                        unclaimed before claimed
    3  over it even so                           FinalizeEarly, Throttle

Nothing is read here, not even a clock: the same usage always gives the same actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quiver.config import RetentionConfig
from quiver.retention.usage import Usage

__all__ = ["Action", "Drop", "Evict", "FinalizeEarly", "Throttle", "decide"]


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a segment that everybody has finished."""

    segment_seq: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Write dropped outcomes for all that is open in a segment, sync them, then delete it."""

    segment_seq: int


@dataclass(frozen=True, slots=True)
class FinalizeEarly:
    """Write the open segment now: its part of the WAL is then reclaimed, and it can go in turn."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Refuse appends until this many bytes are gone."""

    needed_bytes: int


Action: TypeAlias = Evict | Drop | FinalizeEarly | Throttle


def decide(
    usage: Usage, config: RetentionConfig, *, incoming_bytes: int = 0, headroom_bytes: int = 0
) -> list[Action]:
    """Choose what to do, in order, so that ``incoming_bytes`` more fit below the cap.

    ``headroom_bytes`` of the cap are kept free, so that there is always room to write the open
    segment. Under ``backpressure`` nothing unfinished is ever in the list.
    """
    by_age = sorted(usage.segments, key=lambda segment: segment.segment_seq)
    actions: list[Action] = [Evict(s.segment_seq) for s in by_age if s.finished]
    if config.size_cap == 0:
        return actions
    evicted_bytes = sum(segment.bytes for segment in by_age if segment.finished)
    cap = max(config.size_cap - headroom_bytes, 0)
    over = usage.total_bytes - evicted_bytes + incoming_bytes - cap
    if config.size_cap_policy == "drop_oldest":
        unfinished = [segment for segment in by_age if not segment.finished]
        for segment in sorted(unfinished, key=lambda segment: segment.claimed):
            if over <= 0:
                break
            actions.append(Drop(segment.segment_seq))
            over -= segment.bytes
    if over > 0:
        if usage.wal_bytes:
            actions.append(FinalizeEarly())
        actions.append(Throttle(over))
    return actions
