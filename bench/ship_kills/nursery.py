"""The process that actors are forked from: ``python -m bench.ship_kills.nursery SETUP``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import obstore.store  # noqa: F401 It is imported once, and used by nobody in here.

from bench.kills.nursery import serve
from bench.ship_kills.receiving import consume
from bench.ship_kills.sending import produce, ship, write
from bench.ship_kills.setup import Setup
from bench.ship_kills.sweeping import shorten, sweep

__all__ = ["main"]

_ACTORS: Final[dict[str, Callable[..., None]]] = {
    "consumer": consume,
    "drain": lambda setup, life: consume(setup, life, until_empty=True),
    "producer": produce,
    "ship-rest": lambda setup, life: ship(setup, life, follow=False),
    "shipper": ship,
    "sweeper": sweep,
    "writer": lambda setup, life, core: write(setup, core, life),
}


def main(text: str) -> None:
    """Fork who is asked for, in the play that JSON tells of."""
    setup = Setup.from_json(text)
    shorten(setup)
    serve(_ACTORS, setup)


if __name__ == "__main__":
    main(sys.argv[1])
