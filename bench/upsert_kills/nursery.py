"""The process that actors are forked from: ``python -m bench.upsert_kills.nursery SETUP``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import obstore.store  # noqa: F401 It is imported once, and used by nobody in here.
import pyarrow as pa

from bench.kills.nursery import serve
from bench.upsert_kills.reading import follow, read
from bench.upsert_kills.setup import Setup
from bench.upsert_kills.writing import write

__all__ = ["main"]

_ACTORS: Final[dict[str, Callable[..., None]]] = {
    "follower": follow,
    "reader": read,
    "writer": write,
}


def main(text: str) -> None:
    """Fork who is asked for, in the play that JSON tells of."""
    pa.set_cpu_count(1)  # Threads of this process would not be there in its children.
    serve(_ACTORS, Setup.from_json(text))


if __name__ == "__main__":
    main(sys.argv[1])
