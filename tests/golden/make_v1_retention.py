"""Write the golden ages of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.retention import Mark, Saved
from quiver.retention.format import encode_ages

PATH = Path(__file__).parent / "v1" / "retention" / "ages"

SAVED = Saved(
    7_200_000_000_000,
    1_700_000_000_000_000_000,
    (Mark(0, -5), Mark(3, 3_600_000_000_000), Mark(1 << 40, 7_100_000_000_000)),
)


if __name__ == "__main__":
    if PATH.exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(encode_ages(SAVED))
