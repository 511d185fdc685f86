"""Write the golden file of a log file that was used before. Run once; never again."""

from __future__ import annotations

import pyarrow as pa
from make_v1_wal import FOLDER, SLOTS, payload, write

from quiver.payload import EncodedBundle
from quiver.wal.format import Place, entry_parts
from quiver.wal.reuse import dressed, encode_beginning, encode_mark, mask_of

GENERATION = 9


def main() -> None:
    """Write a bundle over the start of three times the golden log."""
    older = (FOLDER / "wal" / "quiver.wal").read_bytes() * 3
    events = pa.record_batch({"x": pa.array([4, 5, 6], pa.int16())})
    bundle = EncodedBundle(43, 1_357_000_000_000_000_002, (payload(0, events),))
    mask = mask_of(GENERATION)
    head = encode_beginning(SLOTS.digest(), GENERATION, 42, truncated=Place(GENERATION, 30))
    entry = b"".join(dressed(entry_parts(bundle), mask))
    data = head[: -len(encode_mark(42, mask))] + entry + encode_mark(43, mask)
    write("reused/quiver.wal.9", data + older[len(data) :])


if __name__ == "__main__":
    main()
