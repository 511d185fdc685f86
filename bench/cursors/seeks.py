"""How long a cursor takes to open on many blocks, and to find a time in them.

    python bench/cursors/seeks.py FOLDER [BLOCKS]

Segments are made without syncs, of one bundle each. Ends of files looked up are counted, for a
bisection should read few; times are medians of what this process needed, files in memory.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

import pyarrow as pa

import quiver
from quiver.payload import EncodedBundle
from quiver.segment import OpenSegment, SegmentLabel, encode_segment, segment_name
from quiver.timeline import Saved, encode_timeline

SLOTS = ["events"]
GAP_NS = 1000


def make(folder: Path, count: int) -> None:
    """Make a store of one partition, of blocks that begin ``GAP_NS`` apart."""
    config = {"segment": {"time": "caller"}}
    with quiver.open(folder, slots=SLOTS, worker=False, config=config) as store:
        core = store._core  # noqa: SLF001
        table = pa.record_batch({"n": pa.array(range(10))})
        payloads = core.encoder.encode({"events": table})
        for seq in range(count):
            opened = OpenSegment(core.config.segment)
            opened.add(EncodedBundle(seq, seq * GAP_NS, payloads), 0)
            label = SegmentLabel(
                segment_seq=seq,
                store_id=core.manifest.store_id,
                core=0,
                slots=core.manifest.slots,
                wal_generation=1,
                wal_offset=30,
            )
            data = b"".join(encode_segment(opened.encoded(), label=label))
            (folder / "core_0" / "segments" / segment_name(seq)).write_bytes(data)
    saved = Saved("caller", True, 0, count * GAP_NS)
    (folder / "core_0" / "timeline").write_bytes(encode_timeline(saved))


def main() -> None:
    folder = Path(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    if not folder.exists():
        make(folder, count)
    rng = random.Random(1)
    opening = []
    for _ in range(5):
        began = time.perf_counter()
        quiver.cursor(folder).close()
        opening.append(time.perf_counter() - began)
    print(f"open a cursor on {count:,} blocks: {statistics.median(opening) * 1e3:.1f} ms")
    first, later = [], []
    for _ in range(20):
        with quiver.cursor(folder, start=0) as cursor:
            for found in (first, later):
                wanted = rng.randrange(count) * GAP_NS
                before, began = cursor.looked_up, time.perf_counter()
                cursor.reset(wanted)
                message = cursor.next()
                found.append((time.perf_counter() - began, cursor.looked_up - before))
                assert message is not None
                assert message.time_ns == wanted
    for name, found in (("first", first), ("second", later)):
        spent = statistics.median(seconds for seconds, _ in found) * 1e3
        looks = max(count for _, count in found)
        print(f"{name} seek and its message: {spent:.2f} ms, at most {looks} ends read")


if __name__ == "__main__":
    main()
