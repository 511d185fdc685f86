"""How a process of a demonstration tells how far it is."""

from __future__ import annotations

import os

__all__ = ["say"]


def say(line: str) -> None:
    """Write a line that is there at once, whatever becomes of this process."""
    os.write(1, f"{line}\n".encode())
