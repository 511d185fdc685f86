"""A disk in RAM whose syncs of the log, and of other files, wait until a test lets them go."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quiver.testing import MemoryDisk
from quiver.testing.memory_file import MemoryFile

PATIENCE = 60
"""Seconds after which a test gives up; nothing here waits that long."""

LOG = "wal/quiver.wal"


class Gate:
    """Where syncs wait while it is shut; ``on_arrival`` is called each time one comes."""

    def __init__(self) -> None:
        self.path_end = LOG
        self.arrivals = 0
        self.on_arrival: Callable[[], object] = lambda: None
        self._came = threading.Semaphore(0)
        self._way = threading.Event()
        self._way.set()

    def shut(self, path_end: str = LOG) -> None:
        """Let the next sync of a file whose path ends so wait for ``open``."""
        self.path_end = path_end
        self._way.clear()

    def open(self) -> None:
        self._way.set()

    def wait_for_arrival(self) -> None:
        """Return once one more sync has come than this was called."""
        assert self._came.acquire(timeout=PATIENCE)

    def pass_through(self, path: str) -> None:
        if path.endswith(self.path_end):
            self.arrivals += 1
            self._came.release()
            self.on_arrival()
            assert self._way.wait(PATIENCE)


class GatedFile(MemoryFile):
    __slots__ = ()

    def sync(self) -> None:
        self._disk.gate.pass_through(self.path)
        super().sync()


class GatedDisk(MemoryDisk):
    """A MemoryDisk with a gate before each sync of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def create(self, path: str, **options: int) -> GatedFile:
        with self.mutex:
            super().create(path, **options).close()
            return self.open(path, writable=True)

    def open(self, path: str, *, writable: bool = False) -> GatedFile:
        with self.mutex:
            file = super().open(path, writable=writable)
            gated = GatedFile(self, file.inode, path, writable=writable)
            file.close()
            return gated

    def fail_syncs_of_the_log(self) -> None:
        self.fail(lambda act: type(act).__name__ == "Sync" and act.path.endswith(LOG))
