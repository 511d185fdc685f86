"""Write the golden progress of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.progress import Note
from quiver.progress.format import encode_copy, encode_table

PATH = Path(__file__).parent / "v1" / "progress" / "progress"
STORE_ID = bytes(range(16))

NOTES = [
    (41, Note("in", 1, {"a": "1:7"})),
    (42, Note("in", 2, {"b": '{"at":{"offset":3}}', "c": None})),
    (40, Note("straße", 9, {"split": "ü"})),
]


def progress() -> bytes:
    """Lay the file out."""
    return 2 * encode_copy(encode_table(NOTES), 42, core=0, store_id=STORE_ID)


if __name__ == "__main__":
    if PATH.exists():
        sys.exit(f"{PATH} is there already: golden files are never written again")
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(progress())
