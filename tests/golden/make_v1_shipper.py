"""Write the golden payload of a shipped segment, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.ship.shipper.format import ShippedSegment, encode_payload

PATH = Path(__file__).parent / "v1" / "shipper" / "payload"

SEGMENT = ShippedSegment(
    "000102030405060708090a0b0c0d0e0f",
    3,
    1 << 40,
    5,
    (1 << 33) + 1,
    70_000,
    1 << 63 | 5,
    1 << 20,
    -3,
    1 << 60,
    (7, 0, (1 << 64) - 1),
)


def payload() -> bytes:
    """Write it."""
    return encode_payload(SEGMENT)


if __name__ == "__main__":
    if PATH.exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(payload())
