"""Who hears what a store logs, for the tests of this folder."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

PATIENCE = 60


class Heard(logging.Handler):
    """Keeps what is logged, as (level, event, fields)."""

    plain = frozenset({*vars(logging.makeLogRecord({})), "message", "taskName"})

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, str, dict[str, Any]]] = []
        self.came = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        fields = {k: v for k, v in vars(record).items() if k not in self.plain}
        with self.came:
            self.records.append((record.levelname.lower(), record.getMessage(), fields))
            self.came.notify_all()

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.records]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Give the fields of the events of a name, without those that all have."""
        found = [dict(fields) for _, each, fields in self.records if each == name]
        for fields in found:
            fields.pop("store", None)
            fields.pop("core", None)
        return found

    def wait_for(self, name: str) -> None:
        with self.came:
            assert self.came.wait_for(lambda: name in self.names, PATIENCE)


@pytest.fixture
def heard():
    handler, logger = Heard(), logging.getLogger("quiver")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)
