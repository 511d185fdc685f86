"""Numbers of bundles, each with the time of the monotonic clock when it was noted."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

__all__ = ["Journal", "last_noted", "noted"]

_PAIR: Final = 16


class Journal:
    """A file that a kill of its process leaves whole: each note is one write."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def note(self, numbers: Iterable[int]) -> None:
        """Note some at once."""
        now = time.monotonic_ns()
        os.write(self._file, np.array([(each, now) for each in numbers], np.int64).tobytes())

    def close(self) -> None:
        """Note no more."""
        os.close(self._file)


def noted(path: str) -> Any:
    """Read all that was noted: one row for each, with number and time."""
    if not os.path.exists(path):
        return np.zeros((0, 2), np.int64)
    return np.fromfile(path, np.int64).reshape(-1, 2)


def last_noted(path: str) -> int:
    """Give the number that was noted last; -1 if none was."""
    if not os.path.exists(path) or os.path.getsize(path) < _PAIR:
        return -1
    with open(path, "rb") as file:
        file.seek(-_PAIR, os.SEEK_END)
        return int(np.frombuffer(file.read(_PAIR), np.int64)[0])
