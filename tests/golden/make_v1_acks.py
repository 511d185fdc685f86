"""Write the golden ack.log and checkpoint of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.acks import (
    DROPPED_OPERATOR,
    Ack,
    Checkpoint,
    Dropped,
    Floor,
    Nack,
    NackState,
    Record,
    Register,
    SegmentState,
    SubscriberState,
    Unregister,
)
from quiver.acks.copies import encode_copies
from quiver.acks.format import encode_header, encode_record

FOLDER = Path(__file__).parent / "v1" / "acks"
BASE_SEQ = 8
AT_NS = 1_700_000_000_000_000_000

RECORDS: tuple[Record, ...] = (
    Register(3, "a-name-of-more-than-22-characters", AT_NS, 42, 1),
    Ack(1, 42, 2, 5, AT_NS + 1, lease=9),
    Nack(1, 42, 7, 2, AT_NS + 30, AT_NS + 2, reason=500),
    Dropped(2, 41, 0, 10, AT_NS + 3, DROPPED_OPERATOR),
    Unregister(2, AT_NS + 4),
    Floor(43, 1000, AT_NS + 5),
)
CHECKPOINT = Checkpoint(
    BASE_SEQ - 1,
    Floor(42, 900),
    (
        SubscriberState(
            1,
            "spark",
            41,
            (SegmentState(41, 10, ((0, 3), (5, 2))), SegmentState(42, 8, ((0, 2),))),
            (NackState(41, 4, 3, AT_NS + 60, 500),),
            lease=9,
        ),
        SubscriberState(2, "parquet", 41),
    ),
)


def golden_log() -> bytes:
    """Encode the header and the records, each numbered behind the one before it."""
    parts = [encode_header(BASE_SEQ)]
    seq = BASE_SEQ
    for record in RECORDS:
        parts.append(encode_record(record, seq))
        seq += len(parts[-1]) // 64
    return b"".join(parts)


def main() -> None:
    """Write both files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = {"ack.log": golden_log(), "checkpoint": encode_copies(CHECKPOINT)}
    for name in files:
        if (FOLDER / name).exists():
            sys.exit(f"{FOLDER / name} is there already: a golden file is written once")
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
