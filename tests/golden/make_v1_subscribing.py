"""Write the golden records of subscribers of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.chain.subscribing.format import encode_record

sys.path += [str(Path(__file__).parents[1] / name) for name in ("chain", "kit")]
from test_subscribing_format import RECORDS

FOLDER = Path(__file__).parent / "v1" / "subscribing"


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, record in RECORDS.items():
        (FOLDER / name).write_text(encode_record(record))
