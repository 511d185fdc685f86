"""Write the golden record of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.chain.record import Amended, encode_amended, encode_page, encode_record

sys.path += [str(Path(__file__).parents[1] / name) for name in ("chain", "kit")]
from test_record_format import BLOCK, LATER, LOST, RECORD

FOLDER = Path(__file__).parent / "v1" / "record"


def record() -> dict[str, bytes]:
    """Lay the objects out."""
    return {
        "record": encode_record(RECORD),
        "page": encode_page((BLOCK, LATER, LOST)),
        "amended": encode_amended(Amended(3, BLOCK)),
    }


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, data in record().items():
        (FOLDER / name).write_bytes(data)
