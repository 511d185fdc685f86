"""Who is woken by a message: whoever waits for it, or three threads of a pool before him."""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa

__all__ = ["use_polling"]

_VARIABLE: Final = "GRPC_EXPERIMENTS"
_ARROW: Final = "26."
"""The Arrow whose gRPC is told so: another one may know nothing of it, and complain."""
_TOLD: Final = "-event_engine_client,-event_engine_listener"


def use_polling() -> bool:
    """Have gRPC wake who waits for a message, and nobody before; gives whether it was told so.

    For a process that waits for small entries one by one, before its first call to a node: it holds
    for all of Arrow Flight in it, and in processes that it starts. Not if the environment says
    already what gRPC does, nor with an Arrow that this was not tried with.
    """
    if not pa.__version__.startswith(_ARROW):
        return False
    return os.environ.setdefault(_VARIABLE, _TOLD) == _TOLD
