"""Names that nobody else has, and which process this is."""

from __future__ import annotations

import os

__all__ = ["fresh_name", "process_id"]

_NAME_BYTES = 16


def fresh_name() -> str:
    """Make a name that no other process has, on this machine or any: 32 letters and digits."""
    return os.urandom(_NAME_BYTES).hex()


def process_id() -> int:
    """Give what tells this process from the one that it was forked from."""
    return os.getpid()
