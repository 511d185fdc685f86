"""A writer that is killed: ``python -m bench.opening.writer FOLDER ROWS SHARE SEGMENTS``.

It finishes so many segments, fills an open one to a share of its size, and sends itself SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import quiver
from bench.segment.finalizes import SEGMENT_BYTES, bundles_for
from bench.wal import shapes

HUGE: Final = 1 << 40


def main() -> None:
    """Write until the kill; each append is synced."""
    folder, rows, share, segments = sys.argv[1:]
    bundles = bundles_for(int(rows), int(SEGMENT_BYTES * float(share)))
    config = {
        "wal": {"max_size": HUGE, "rotate_size": HUGE, "durability": "interval"},
        "segment": {"target_size": HUGE, "max_open_duration": "1h"},
    }
    store = quiver.open(folder, slots=shapes.SLOTS, config=config, worker=False)
    store.subscribe("reader")
    for _ in range(int(segments)):
        for bundle in bundles:
            store.append(bundle)
        store.finalize()
    for bundle in bundles:
        store.append(bundle)
    store.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
