"""Write the golden ledger of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.ledger.format import RECORD_BYTES, Record, encode_header, encode_record

PATH = Path(__file__).parent / "v1" / "ledger" / "ledger"
STORE_ID = bytes(range(16))

RECORDS: dict[int, Record] = {
    0: Record(0, 7, 300_000, 400_000, 0, 100_000),
    1: Record(1, (1 << 32) - 1, 1 << 40, (1 << 40) + 8192, 4096, 0, pending=True),
    3: Record(3, 1, 12),
}


def ledger() -> bytes:
    """Lay out a ledger; core 2 has no record."""
    blank = bytes(RECORD_BYTES)
    records = [encode_record(RECORDS[n], STORE_ID) if n in RECORDS else blank for n in range(4)]
    return encode_header(STORE_ID) + b"".join(records)


if __name__ == "__main__":
    if PATH.exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(ledger())
