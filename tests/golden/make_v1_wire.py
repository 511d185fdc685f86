"""Write the golden frames and messages of format 1, once; refuses to touch what is there."""

from __future__ import annotations

import sys
from pathlib import Path

from quiver.chain.wire.format import encode_frame, encode_message

sys.path += [str(Path(__file__).parents[1] / name) for name in ("chain", "kit")]
from test_wire_format import ADDED, FRAMES, MESSAGES

FOLDER = Path(__file__).parent / "v1" / "wire"


def wire() -> dict[str, bytes]:
    """Lay them out, one behind the other."""
    return {
        "frames": b"".join(map(encode_frame, FRAMES)),
        "messages": b"".join(map(encode_message, MESSAGES)),
        "added": b"".join(map(encode_message, ADDED)),
    }


if __name__ == "__main__":
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there already: golden files are never written again")
    FOLDER.mkdir(parents=True)
    for name, data in wire().items():
        (FOLDER / name).write_bytes(data)
