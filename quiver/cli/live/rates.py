"""How fast a store goes: what lies between two looks at it, by the time between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quiver.cli.live.look import CoreLook, Look, SubscriberLook
from quiver.cli.live.nodes import Nodes
from quiver.units import SECOND

__all__ = ["HISTORY_MAX", "History", "Rate", "Rates", "rates_between"]

HISTORY_MAX: Final = 600
"""How many rates are remembered, for the line that is drawn of them."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What comes in, in a second."""

    bundles: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Of the store, of each core, and what each subscriber gets done in a second, in bundles."""

    total: Rate = Rate()
    cores: Mapping[int, Rate] = field(default_factory=dict)
    done: Mapping[str, float] = field(default_factory=dict)
    items: Mapping[str, float] = field(default_factory=dict)
    """What each node of a pipeline took or gave in a second."""


def rates_between(before: Look | None, after: Look) -> Rates | None:
    """Give the rates between two looks; None if there are none to tell.

    A core or a subscriber that was not there before, or that went back, counts for nothing.
    """
    if before is None or before.store_id != after.store_id or after.problem is not None:
        return None
    elapsed = (after.monotonic_ns - before.monotonic_ns) / SECOND
    if elapsed <= 0 or before.problem is not None:
        return None
    cores: dict[int, Rate] = {}
    done: dict[str, float] = {}
    for core in after.cores:
        known = before.core(core.core)
        bundles, bytes_ = 0, 0.0
        if known is not None and known.problem is None and core.problem is None:
            bundles = max(core.next_wal_seq - known.next_wal_seq, 0)
            bytes_ = _bytes_between(known, core, bundles)
            for name, count in _done(known, core).items():
                done[name] = done.get(name, 0.0) + count / elapsed
        cores[core.core] = Rate(bundles / elapsed, bytes_ / elapsed)
    total = Rate(
        sum(rate.bundles for rate in cores.values()), sum(rate.bytes for rate in cores.values())
    )
    return Rates(total, cores, done, _items(before.nodes, after.nodes, elapsed))


def _items(before: Nodes | None, after: Nodes | None, elapsed: float) -> dict[str, float]:
    if before is None or after is None:
        return {}
    known = {node.name: node.items for node in before.nodes}
    return {
        node.name: max(node.items - known[node.name], 0) / elapsed
        for node in after.nodes
        if node.name in known
    }


def _bytes_between(before: CoreLook, after: CoreLook, bundles: int) -> float:
    """Say how many bytes of payloads these bundles have.

    Those that became a segment meanwhile count as much as the ones that are open, on average; if
    none is open, as much as those in segments.
    """
    if before.next_finalized_seq == after.next_finalized_seq:
        return max(after.open_bytes - before.open_bytes, 0)
    count, size = after.open_bundle_count, after.open_bytes
    if not count:
        count, size = before.open_bundle_count, before.open_bytes
    if not count:
        count = sum(segment.bundle_count for segment in after.segments.values())
        size = after.segment_bytes
    return bundles * size / count if count else 0.0


def _done(before: CoreLook, after: CoreLook) -> dict[str, int]:
    """Count what each subscriber got done: what came to be open, less what is open more."""
    came = max(after.next_finalized_seq - before.next_finalized_seq, 0)
    known = {each.name: _left(each) for each in before.subscribers}
    return {
        each.name: max(came - (_left(each) - known[each.name]), 0)
        for each in after.subscribers
        if each.name in known
    }


def _left(subscriber: SubscriberLook) -> int:
    return subscriber.bundle_count - subscriber.unfolded_count


class History:
    """The last rates of a store, oldest first."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: deque[Rate] = deque(maxlen=HISTORY_MAX)

    def add(self, rate: Rate) -> None:
        """Remember one; the oldest goes when there are too many."""
        self._kept.append(rate)

    def bundles(self, count: int) -> list[float]:
        """Give the last rates in bundles, at most ``count``, oldest first."""
        return [rate.bundles for rate in self._kept][-count:] if count > 0 else []
