"""What an actor says, through all its lives, one line at a time: there even if it is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

__all__ = ["Log", "lines"]


class Log:
    """Lines of one actor, through all its lives; what is written is there if it is killed then."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def say(self, *words: Any) -> None:
        """Write one line."""
        os.write(self._file, (" ".join(map(str, words)).replace("\n", " | ") + "\n").encode())


def lines(path: str, word: str) -> Iterator[list[str]]:
    """Go through the lines of a log that begin with a word, each as its words."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words and words[0] == word:
                    yield words
