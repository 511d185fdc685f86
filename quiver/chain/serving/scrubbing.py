"""Segments are read again, slowly, to see whether they are still what was written."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from typing import Final

from quiver.chain.node import LocalNode
from quiver.chain.peers import BlockName, as_fault
from quiver.errors import ClosedError, ConfigError, MissingError, QuiverError

__all__ = ["ScrubRules", "Scrubbing"]

_TOLD_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubRules:
    """How fast, and how often."""

    bytes_per_second: int = 8 << 20
    """0: never."""
    every_seconds: float = 86_400.0
    """Between the end of a pass over all segments and the next one."""

    def __post_init__(self) -> None:
        """Check the numbers; raises ConfigError."""
        if self.bytes_per_second < 0 or self.every_seconds <= 0:
            raise ConfigError("a scrub is of some bytes a second, now and then")


class Scrubbing:
    """Reads all segments of a node, one after the other, by a thread of its own.

    What is rotten is set aside by the node; whoever repairs finds that it is not there any more,
    and copies it from elsewhere.
    """

    def __init__(self, node: LocalNode, rules: ScrubRules) -> None:
        """Take a node; nothing is read before ``start``."""
        self._node = node
        self._rules = rules
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.faults: list[QuiverError] = []
        """What was found in the last pass."""

    def start(self) -> None:
        """Read from now on, beginning anywhere: a node that starts often reads all of it too."""
        if self._rules.bytes_per_second:
            thread = threading.Thread(target=self._run, name="quiver-scrub", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self, *, seconds: float = 2.0) -> None:
        """Read no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def scrub(self) -> int:
        """Read all segments once; gives how many are as they were written."""
        names = [each.name for each in self._node.holdings() if each.finished is not None]
        begin = secrets.randbelow(len(names)) if names else 0
        self.faults = []
        return sum(self._is_good(name) for name in (*names[begin:], *names[:begin]))

    def _is_good(self, name: BlockName) -> bool:
        if self._over.is_set():
            return False
        try:
            self._node.verify(name, self._pause)
        except (MissingError, ClosedError):  # It was dropped meanwhile, or the node ends.
            return False
        except QuiverError as error:
            self.faults = [*self.faults, error][:_TOLD_MAX]
            return False
        return True

    def _pause(self, read_bytes: int) -> None:
        rate = self._rules.bytes_per_second
        if rate and self._over.wait(read_bytes / rate):
            raise ClosedError("the node ends")

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.scrub()
            except Exception as error:  # noqa: BLE001 Else nothing is ever read again.
                self.faults = [as_fault(error, "a scrub", node=self._node.name)]
            self._over.wait(self._rules.every_seconds)
