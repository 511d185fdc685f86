"""Write the golden timeline of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.timeline import Saved, encode_timeline

PATH = Path(__file__).parent / "v1" / "timeline" / "timeline"

SAVED = Saved("caller", True, 7, 1_700_000_000_000_000_001)


if __name__ == "__main__":
    if PATH.exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(encode_timeline(SAVED))
