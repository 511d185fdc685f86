"""Write the golden files of what acks gained later, once; refuses to touch what is there.

An ack.log of format 1 with the kinds 7 to 10, a checkpoint of format 2, an inbox of format 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.acks import (
    DEAD_ATTEMPTS,
    Checkpoint,
    DeadLetter,
    Floor,
    Lease,
    NackState,
    Pause,
    Record,
    Rename,
    SegmentState,
    SubscriberState,
)
from quiver.acks.copies import encode_copies
from quiver.acks.format import encode_header, encode_record
from quiver.acks.inbox import DeadLetterState, Inbox, encode_inbox

FOLDER = Path(__file__).parent / "v2" / "acks"
BASE_SEQ = 20
AT_NS = 1_700_000_000_000_000_000

RECORDS: tuple[Record, ...] = (
    Pause(1, AT_NS, paused=True),
    Pause(1, AT_NS + 1, paused=False),
    DeadLetter(2, 43, 6, 1, AT_NS + 2, 3, DEAD_ATTEMPTS, 9),
    Lease(2, 10, AT_NS + 3),
    Rename(2, "parquet-of-the-second-year", AT_NS + 4),
)
CHECKPOINT = Checkpoint(
    BASE_SEQ - 1,
    Floor(44, 1200),
    (
        SubscriberState(
            1,
            "spark",
            43,
            (SegmentState(43, 10, ((0, 3), (5, 2))),),
            (NackState(43, 4, 3, AT_NS + 60, 500),),
            lease=9,
            paused=True,
            last_seen_ns=AT_NS,
            dead_letter_count=2,
        ),
        SubscriberState(2, "parquet", 44, last_seen_ns=AT_NS - 1),
    ),
)
INBOX = Inbox(
    "0123456789abcdef0123456789abcdef",
    "spark",
    9,
    AT_NS,
    1,
    42,
    3,
    (SegmentState(42, 10, ((0, 3), (5, 2))), SegmentState(43, 8, ((0, 8),))),
    (NackState(42, 4, 3, AT_NS + 60, 500),),
    (DeadLetterState(42, 8, 5, DEAD_ATTEMPTS, "na\u00efve"), DeadLetterState(44, 0)),
)


def golden_log() -> bytes:
    """Encode the header and the records, each numbered behind the one before it."""
    parts = [encode_header(BASE_SEQ)]
    seq = BASE_SEQ
    for record in RECORDS:
        parts.append(encode_record(record, seq))
        seq += len(parts[-1]) // 64
    return b"".join(parts)


def golden_files() -> dict[str, bytes]:
    """Give each file by its path below the folder."""
    return {
        "ack.log": golden_log(),
        "checkpoint": encode_copies(CHECKPOINT),
        "inbox/spark": encode_inbox(INBOX),
    }


def main() -> None:
    """Write those that are not there yet."""
    missing = {n: d for n, d in golden_files().items() if not (FOLDER / n).exists()}
    if not missing:
        sys.exit(f"{FOLDER} has all of them: a golden file is written once")
    for name, data in missing.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
