"""What must go, in which order: a list of actions from the bytes in use and the configured cap.

::

    1  too old, whoever needs it                       Expire
    2  finished: all but the newest that fit into      Evict
       the headroom, and those too while over the cap
    3  still over the cap, by policy
         backpressure   write what is open             FinalizeEarly
         drop_oldest    unfinished segments, oldest    Drop
                        first, those claimed last
                        then what is in no segment     DropOpen
    4  over it even so                                 Throttle

Age goes before the cap: what is too old goes while there is room as well, and before anything
younger is dropped for lack of it. Nothing is read here, not even a clock: the same usage always
gives the same actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quiver.config import RetentionConfig
from quiver.retention.usage import SegmentUse, Usage

__all__ = ["Action", "Drop", "DropOpen", "Evict", "Expire", "FinalizeEarly", "Throttle", "decide"]


@dataclass(frozen=True, slots=True)
class Expire:
    """Write dropped outcomes for all that is open in a segment that is too old, and delete it."""

    segment_seq: int


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a segment that everybody has finished; ``for_room``: it would have stayed a while."""

    segment_seq: int
    for_room: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Write dropped outcomes for all that is open in a segment, sync them, then delete it."""

    segment_seq: int


@dataclass(frozen=True, slots=True)
class DropOpen:
    """Do the same with all that is in no segment yet, and give the log back."""


@dataclass(frozen=True, slots=True)
class FinalizeEarly:
    """Write the open segment now: its part of the WAL is then reclaimed, and it can go in turn."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Refuse appends until this many bytes are gone."""

    needed_bytes: int


Action: TypeAlias = Expire | Evict | Drop | DropOpen | FinalizeEarly | Throttle


def decide(
    usage: Usage,
    config: RetentionConfig,
    *,
    cap: int | None = None,
    incoming_bytes: int = 0,
    keep_headroom: bool = True,
) -> list[Action]:
    """Choose what to do, in order, so that ``incoming_bytes`` more fit below the cap.

    ``cap`` is this core's share of ``size_cap``, which is meant without it; 0 is none. Under
    ``backpressure`` nothing that is unfinished and young enough is ever in the list.
    """
    cap = config.size_cap if cap is None else cap
    over = usage.total_bytes + incoming_bytes - cap if cap else 0
    by_age = sorted(usage.segments, key=lambda segment: segment.segment_seq)
    actions: list[Action] = [Expire(s.segment_seq) for s in by_age if s.expired]
    over -= sum(s.bytes for s in by_age if s.expired)
    young = [segment for segment in by_age if not segment.expired]
    headroom = config.steady_state_headroom if keep_headroom else 0
    for segment, for_room in _evicted([s for s in young if s.finished], headroom, over):
        actions.append(Evict(segment.segment_seq, for_room=for_room))
        over -= segment.bytes
    if over <= 0:
        return actions
    if config.size_cap_policy == "drop_oldest":
        for segment in sorted((s for s in young if not s.finished), key=lambda s: s.claimed):
            if over <= 0:
                break
            actions.append(Drop(segment.segment_seq))
            over -= segment.bytes
        if over > 0 and usage.wal_bytes:
            actions.append(DropOpen())
            over -= usage.wal_bytes + usage.reserved_bytes
    elif usage.wal_bytes:
        actions.append(FinalizeEarly())
    if over > 0:
        actions.append(Throttle(over))
    return actions


def _evicted(
    finished: Sequence[SegmentUse], headroom: int, over: int
) -> Iterator[tuple[SegmentUse, bool]]:
    """Choose, oldest first, what of the finished goes, and whether only for lack of room."""
    kept_bytes = sum(segment.bytes for segment in finished)
    for segment in finished:
        for_room = headroom > 0 and kept_bytes <= headroom
        if for_room and over <= 0:
            return
        yield segment, for_room
        kept_bytes -= segment.bytes
        over -= segment.bytes
