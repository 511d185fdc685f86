"""Write the golden copy of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.chain.copies.format import (
    Mark,
    encode_floor,
    encode_front,
    encode_generation,
    encode_mark,
    encode_state,
)

sys.path += [str(Path(__file__).parents[1] / name) for name in ("chain", "kit")]
from test_copies_format import CUT, FRONT, OPEN, SETTLED

FOLDER = Path(__file__).parent / "v1" / "copies"


def copies() -> dict[str, bytes]:
    """Lay the objects out."""
    return {
        "open": encode_state(OPEN),
        "cut": encode_state(CUT),
        "settled": encode_state(SETTLED),
        "front": encode_front(*FRONT, version=1),
        "front-2": encode_front(*FRONT),
        "mark": encode_mark(Mark(3, 4_711)),
        "floor": encode_floor(8),
        "generation": encode_generation(9),
    }


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, data in copies().items():
        (FOLDER / name).write_bytes(data)
