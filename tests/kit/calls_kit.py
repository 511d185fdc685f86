"""How much work something takes, counted: the same on every machine."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["calls_of"]


def calls_of(act: Any) -> int:
    """Count the calls of Python and C that something takes when it is done for the second time.

    The first time it imports, compiles patterns and fills caches, as much as nobody has before.
    """
    act()
    calls = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls
