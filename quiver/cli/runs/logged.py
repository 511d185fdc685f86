"""What the parts of a pipeline log, as lines for who runs it: nobody else listens there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["events_shown"]

_ALSO: Final = frozenset(("exporter.resumed",))
"""Events that are no warning, and say that one is over."""
_KNOWN: Final = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        event = record.getMessage()
        if record.levelno < logging.WARNING and event not in _ALSO:
            return
        fields = [f"{key}={value}" for key, value in vars(record).items() if key not in _KNOWN]
        try:
            self._write(f"{event}: {', '.join(fields)}" if fields else event)
        except (OSError, ValueError):  # Nobody reads stderr any more: telemetry goes on.
            return


@contextmanager
def events_shown(write: Callable[[str], object]) -> Iterator[None]:
    """Give each warning of quiver to ``write``, as one line, for the length of a block."""
    logger, handler = logging.getLogger("quiver"), _Lines(write)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
