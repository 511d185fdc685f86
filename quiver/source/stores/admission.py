"""How much of what there is comes next: pure, from what each core has.

Segments of one core come in their order. Between cores the one that was written first is next, so
that none waits for ever behind another; a limit that one segment alone exceeds lets that one pass,
or nothing would ever move.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quiver.source.stores.listing import Entry

__all__ = ["Limits", "admit"]


@dataclass(frozen=True, slots=True)
class Limits:
    """At most so many segments and bytes of the slot at a time; None is no limit."""

    segments_max: int | None = None
    bytes_max: int | None = None

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return self.segments_max is not None or self.bytes_max is not None


def admit(
    pending: Mapping[int, Sequence[Entry]], limits: Limits, size: Callable[[Entry], int]
) -> dict[int, int]:
    """Choose from what is pending in each core; gives, by core, how many of its segments.

    ``size`` is asked only if there is a limit of bytes, and only for what is looked at.
    """
    taken = dict.fromkeys(pending, 0)
    if not limits:
        return {core: len(entries) for core, entries in pending.items()}
    heads = [(entries[0].modified_ns, core) for core, entries in pending.items() if entries]
    heapq.heapify(heads)
    count = total = 0
    while heads:
        _, core = heapq.heappop(heads)
        entries = pending[core]
        if limits.bytes_max is not None:
            total += size(entries[taken[core]])
        over = limits.bytes_max is not None and total > limits.bytes_max
        if count and over:
            break
        taken[core] += 1
        count += 1
        if over or count == limits.segments_max:
            break
        if taken[core] < len(entries):
            heapq.heappush(heads, (entries[taken[core]].modified_ns, core))
    return taken
