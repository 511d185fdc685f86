"""Write the golden batches of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.ship.batch import encode_batch

FOLDER = Path(__file__).parent / "v1" / "batch"


def batches() -> dict[str, bytes]:
    """Lay out one batch of each kind; the first is the example of the reference."""
    return {
        "stored.batch": joined([b"a", b"bc"], "none"),
        "empty.batch": joined([], "none"),
        "zstd.batch": joined([b"abc" * 100, b"", b"abc" * 50], "zstd"),
    }


def joined(records: list[bytes], compression) -> bytes:
    return b"".join(encode_batch(records, compression=compression).parts)


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, data in batches().items():
        (FOLDER / name).write_bytes(data)
