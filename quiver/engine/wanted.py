"""What a subscription wants to be given, and in which order; checked before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np

from quiver.engine.desk import Desk
from quiver.errors import InputError, QuiverError
from quiver.segment import BundleEntry, SegmentReader
from quiver.subscriber import Order, Ranked, newest, oldest

__all__ = ["DeliveryOrder", "Wanted", "skipped_runs", "wanted_of"]

Rank: TypeAlias = Callable[[BundleEntry], float]
DeliveryOrder: TypeAlias = Literal["oldest", "newest"] | Rank
"""``oldest`` first, ``newest`` segment first, or what the function gives the highest number."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The order of bundles, the slots of which there must be one (None: any), how many ahead."""

    order: Order
    slots: frozenset[int] | None
    prefetch: int


def wanted_of(
    core: Desk,
    *,
    order: DeliveryOrder = "oldest",
    slots: Collection[str] | str | None = None,
    prefetch: int = 0,
) -> Wanted:
    """Read what a caller said; InputError or ConfigError that names what cannot be."""
    if isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0:
        raise InputError(f"prefetch: {prefetch!r} is no number of bundles")
    names = [slots] if isinstance(slots, str) else slots
    slot_ids = None
    if names is not None:
        slot_ids = frozenset(core.manifest.slots[name].slot_id for name in names)
        if not slot_ids:
            raise InputError("slots: no slot is named", hint="leave it out for all of them")
    return Wanted(_order(core, order), slot_ids, prefetch)


def _order(core: Desk, order: DeliveryOrder) -> Order:
    if order == "oldest":
        return oldest
    if order == "newest":
        return newest
    if callable(order):
        return Ranked(_ranks(core, order))
    raise InputError(
        f"order: {order!r} is none", hint="'oldest', 'newest', or a function that ranks bundles"
    )


def _ranks(core: Desk, rank: Rank) -> Callable[[int], Iterator[tuple[float, int, int]]]:
    def runs(segment_seq: int) -> Iterator[tuple[float, int, int]]:
        info = core.catalog.get(segment_seq)
        try:
            reader = core.readers.get(segment_seq, info.path).reader
        except QuiverError:  # Who claims one of its bundles finds out what is wrong.
            yield 0, 0, info.bundle_count
            return
        ranks = [rank(reader.bundle_entry(index)) for index in range(info.bundle_count)]
        first = 0
        for value, group in groupby(ranks):
            count = sum(1 for _ in group)
            yield value, first, count
            first += count

    return runs


def skipped_runs(reader: SegmentReader, slots: Collection[int]) -> list[tuple[int, int]]:
    """Give the bundles of a segment that have none of these slots, as runs (first, count)."""
    wanted = np.zeros(reader.bundle_count + 2, bool)
    wanted[[0, -1]] = True
    for slot_id in slots:
        bundles, _, _ = reader.manifest.chunks_of(slot_id)
        wanted[bundles + 1] = True
    edges = np.flatnonzero(np.diff(wanted))
    starts, stops = edges[::2].tolist(), edges[1::2].tolist()
    return [(start, stop - start) for start, stop in zip(starts, stops, strict=True)]
