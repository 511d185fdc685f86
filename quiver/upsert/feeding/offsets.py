"""How far a store is in a collection: of each core the next bundle, as the manifest keeps it.

The source is the slot, a split of it one core of one store, and no subscriber has a part in that:
whoever goes on with that slot, under whatever name, finds what is in already. A place is one
number, the segment's times 2^32 and the bundle's.

A query of Spark says it in the same way. It has a second record of its source, of what queries
before it had taken; so either may go on where the other stopped, under the name of one source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quiver.engine.start import Position
from quiver.errors import InputError

__all__ = ["furthest", "read_offsets", "source_names", "write_offsets"]

_BUNDLES: Final = 1 << 32
_CORE: Final = "/core_"


def source_names(slot: str) -> tuple[str, str]:
    """Name the rows of one slot, of whatever store: our record of them, and a query's second."""
    return f"quiver:{slot}", f"quiver:{slot}/before"


def write_offsets(store_id: str, positions: Mapping[int, Position]) -> dict[str, int]:
    """Say of each core which bundle comes next; raises InputError for one that has no number."""
    found = {}
    for core, (segment_seq, bundle_index) in sorted(positions.items()):
        if segment_seq >= _BUNDLES or bundle_index >= _BUNDLES:
            raise InputError(
                f"bundle {bundle_index:,} of segment {segment_seq:,} is no place that is kept"
            )
        found[f"{store_id}{_CORE}{core}"] = segment_seq * _BUNDLES + bundle_index
    return found


def read_offsets(store_id: str, splits: Mapping[str, int]) -> dict[int, Position]:
    """Read what is said of the cores of one store."""
    found = {}
    for split, place in splits.items():
        core = split.removeprefix(f"{store_id}{_CORE}")
        if core != split and core.isdecimal():
            found[int(core)] = Position(*divmod(place, _BUNDLES))
    return found


def furthest(some: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Give for each split the furthest place."""
    found: dict[str, int] = {}
    for splits in some:
        for split, place in splits.items():
            found[split] = max(place, found.get(split, 0))
    return found
