"""Where long work in Python may stop for a moment, for others to have the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Rest", "no_rest"]

Rest: TypeAlias = Callable[[], None]
"""Called between pieces of work that take some microseconds each; knows itself when it is time."""


def no_rest() -> None:
    """Go on at once."""
