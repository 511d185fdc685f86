"""The slot table as it goes with a block, so that its files are enough to read it."""

from __future__ import annotations

import json
from typing import Final

from quiver.errors import InputError
from quiver.manifest import slots_from_json, slots_to_json
from quiver.slots import SlotTable

__all__ = ["LAYOUT_BYTES_MAX", "decode_layout", "encode_layout"]

LAYOUT_BYTES_MAX: Final = 1 << 16


def encode_layout(slots: SlotTable) -> str:
    """Write a slot table; equal ones give the same text."""
    return json.dumps(slots_to_json(slots), separators=(",", ":"), sort_keys=True)


def decode_layout(text: str) -> SlotTable:
    """Read what ``encode_layout`` wrote; raises InputError."""
    if len(text.encode("utf-8", "replace")) > LAYOUT_BYTES_MAX:
        raise InputError(f"a layout has {len(text):,} characters, it may have {LAYOUT_BYTES_MAX:,}")
    try:
        return slots_from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"a layout is no slot table ({error!r:.200})") from error
