"""What a streaming query writes into its checkpoint of how far it is in a store.

::

    {"connector":"quiver","slot":"logs","splits":{"core_0":{"bundle_index":0,"segment_seq":8}},
     "store":"<32 hexadecimal digits>","version":1}

The state of each split, with keys sorted: Spark compares offsets as texts. A core that is missing
is at its beginning, so cores may come at any time.

A query without a subscriber has ``first`` as well, which is where it began, in the form of
``splits``: of its first batch Spark keeps the end alone, and asks anew for the beginning when that
is done again. By then ``latest`` is further on, and what was ``earliest`` may be gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from quiver.errors import InputError, VersionError
from quiver.source.stores import Position, Positions
from quiver.source.stores.position import CONNECTOR, core_of, place_of, split_id

__all__ = ["decode_offset", "encode_offset", "first_of", "is_offset_of"]

VERSION: Final = 1
_FIRST: Final = "first"
_FIELDS: Final = {"connector", "slot", "splits", "store", "version"}


def encode_offset(
    positions: Positions, *, store_id: str, slot: str, first: Positions | None = None
) -> dict[str, Any]:
    """Write positions as an offset, whose keys are in order."""
    return {
        "connector": CONNECTOR,
        **({} if first is None else {_FIRST: _splits(first)}),
        "slot": slot,
        "splits": _splits(positions),
        "store": store_id,
        "version": VERSION,
    }


def _splits(positions: Positions) -> dict[str, Any]:
    splits = {split_id(core): position for core, position in positions.items()}
    return {
        split: {
            "bundle_index": splits[split].bundle_index,
            "segment_seq": splits[split].segment_seq,
        }
        for split in sorted(splits)
    }


def decode_offset(offset: Mapping[str, Any], *, store_id: str, slot: str) -> dict[int, Position]:
    """Read an offset back; InputError if it is none, or of another store or slot."""
    version = offset.get("version")
    if offset.get("connector") == CONNECTOR and isinstance(version, int) and version > VERSION:
        raise VersionError(
            f"the checkpoint has offsets of version {version}, known is {VERSION}",
            hint="it was written by a newer Quiver: use that",
        )
    splits = offset.get("splits")
    if set(offset) - {_FIRST} != _FIELDS or version != VERSION or not isinstance(splits, Mapping):
        shown = json.dumps(offset, default=str)[:100]
        raise InputError(f"this is no offset of format quiver: {shown}")
    if offset["store"] != store_id or offset["slot"] != slot:
        raise InputError(
            f"the checkpoint is of slot {offset['slot']!r} of store {offset['store']}, and the "
            f"query reads {slot!r} of {store_id}",
            hint="each query has a checkpoint of its own; begin anew with an empty folder",
        )
    return _positions(splits)


def first_of(offset: Mapping[str, Any]) -> dict[int, Position] | None:
    """Give where the query of an offset began, if that says it; InputError if it says nonsense."""
    splits = offset.get(_FIRST)
    if splits is None:
        return None
    if not isinstance(splits, Mapping):
        raise InputError(f"{_FIRST}: {splits!r} is no place in a store")
    return _positions(splits)


def _positions(splits: Mapping[str, Any]) -> dict[int, Position]:
    found = {}
    for split, place in splits.items():
        if not isinstance(place, Mapping):
            raise InputError(f"split {split!r}: {place!r} is no position")
        found[core_of(split)] = place_of(place)
    return found


def is_offset_of(value: object, *, store_id: str, slot: str) -> bool:
    """Whether this is an offset of that slot of that store, of any version."""
    return (
        isinstance(value, Mapping)
        and value.get("connector") == CONNECTOR
        and value.get("store") == store_id
        and value.get("slot") == slot
    )
