"""Where a reader of a store stands, as the state of a split: the next bundle of a core.

::

    {"at":{"bundle_index":0,"segment_seq":8,"store":"<32 hexadecimal digits>"},
     "connector":"quiver","version":1}

A split is a core, ``core_0`` and so on; without a state it is at the beginning, (0, 0). The store
is in there so that nobody goes on in another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from quiver.engine.start import Position
from quiver.errors import InputError
from quiver.source.states import decode_state, encode_state

__all__ = ["CONNECTOR", "START", "Position", "core_of", "decode", "encode", "place_of", "split_id"]

CONNECTOR: Final = "quiver"
VERSION: Final = 1
START: Final = Position()

_SPLIT: Final = re.compile(r"core_(0|[1-9][0-9]{0,8})")
_FIELDS: Final = {"bundle_index", "segment_seq", "store"}
_SEQ_MAX: Final = (1 << 63) - 1
_INDEX_MAX: Final = (1 << 32) - 1


def split_id(core: int) -> str:
    """Name the split of a core."""
    return f"core_{core}"


def core_of(split: str) -> int:
    """Read the number of a core from the id of its split; raises InputError."""
    match = _SPLIT.fullmatch(split)
    if match is None:
        raise InputError(f"a store has no split {split!r}", hint="they are core_0, core_1, ...")
    return int(match[1])


def encode(position: Position, store_id: str) -> str:
    """Write a position as a state."""
    return encode_state(CONNECTOR, VERSION, {**position._asdict(), "store": store_id})


def decode(state: str | None, store_id: str) -> Position:
    """Read a state; None is the beginning. InputError if it is none, or of another store."""
    if state is None:
        return START
    at = decode_state(state, connector=CONNECTOR, version=VERSION)
    if set(at) != _FIELDS:
        raise InputError(
            f"a state of connector quiver has {', '.join(sorted(at))}",
            hint=f"its fields are {', '.join(sorted(_FIELDS))}",
        )
    if at["store"] != store_id:
        raise InputError(
            f"this is a state of store {at['store']}, and the store here is {store_id}",
            hint="another folder is at this path: begin anew, without the old states",
        )
    return place_of(at)


def place_of(fields: Mapping[str, object]) -> Position:
    """Check the two numbers of a position; raises InputError."""
    found = []
    for name, limit in (("segment_seq", _SEQ_MAX), ("bundle_index", _INDEX_MAX)):
        value = fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise InputError(
                f"{name}: {value!r} is no number of a {name.partition('_')[0]}",
                hint="pass a state as it was handed out, or None for the start",
            )
        found.append(value)
    return Position(*found)
