"""Subscribers of stores for which a pipeline has no exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quiver.engine import Store
from quiver.otel.pipeline.plan import Plan

__all__ = ["Leftover", "find_leftovers"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A subscriber of a store that is no exporter of the file: what it was not given is kept."""

    store: str
    path: str
    name: str
    bundle_count: int
    byte_count: int


def find_leftovers(plan: Plan, stores: Mapping[str, Sequence[Store]]) -> Iterator[Leftover]:
    """Find those of the open stores of each node."""
    for name, cores in stores.items():
        known = {outlet.exporter for outlet in plan.outlets[name]}
        owed: dict[str, list[int]] = {}
        for store in cores:
            for lag in store.lags():
                if lag.subscriber not in known:
                    sums = owed.setdefault(lag.subscriber, [0, 0])
                    sums[0] += lag.bundle_count
                    sums[1] += lag.byte_count
        path = cores[0].path
        yield from (Leftover(name, path, who, *sums) for who, sums in sorted(owed.items()))
