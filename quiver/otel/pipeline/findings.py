"""What is found wrong with a pipeline file, and what is only worth telling; each with its line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from quiver.config_keys import Table
from quiver.errors import ConfigError

__all__ = ["Findings", "guess", "line_of"]

_KEY_MAX = 120


class Findings:
    """Gathers all of it, so that one look at a file tells everything."""

    def __init__(self, place: str) -> None:
        """Begin with nothing; ``place`` is the name of the file."""
        self._place = place
        self._errors: dict[tuple[int, int], ConfigError] = {}
        self._notes: dict[tuple[int, int], str] = {}

    def refuse(self, text: str, *, hint: str = "", line: int = 0) -> None:
        """Take down what is wrong."""
        error = ConfigError(f"{self._where(line)}: {text}", hint=hint)
        self._errors[line or 1 << 30, len(self._errors)] = error

    def take(self, error: ConfigError, *, line: int = 0) -> None:
        """Take down what somebody else found wrong, and has said where."""
        self._errors[line or 1 << 30, len(self._errors)] = error

    def note(self, text: str, *, line: int = 0) -> None:
        """Take down what is right, and may surprise."""
        self._notes[line or 1 << 30, len(self._notes)] = f"{self._where(line)}: {text}"

    def tells_of(self, key: str) -> bool:
        """Whether anything is wrong already with what is below a key."""
        return any(f": {key}" in error.message for error in self._errors.values())

    def _where(self, line: int) -> str:
        return f"{self._place}:{line}" if line else self._place

    @property
    def errors(self) -> list[ConfigError]:
        """All that is wrong, from the top of the file to its end."""
        return [self._errors[key] for key in sorted(self._errors)]

    @property
    def notes(self) -> tuple[str, ...]:
        """All that was noted, in the same order."""
        return tuple(self._notes[key] for key in sorted(self._notes))


def line_of(table: Mapping[Any, Any], key: object) -> int:
    """Give the line of a key; 0 where nobody knows it."""
    return table.lines.get(str(key), 0) if isinstance(table, Table) else 0


def guess(name: str, known: Iterable[str]) -> str:
    """Say which of those that there are may have been meant."""
    names = list(known)
    near = difflib.get_close_matches(name[:_KEY_MAX], names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known: {', '.join(names)}" if names else ""
