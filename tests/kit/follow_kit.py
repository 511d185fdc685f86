"""A store on a disk in RAM that follows sources, killed and damaged at will."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import quiver
from quiver.engine import open as open_store
from quiver.testing import ManualClock, MemoryDisk

ROWS = pa.table({"n": [1, 2, 3]})
FILE = "core_0/progress"


def opened(disk: MemoryDisk, *, core: int | None = 0, **config: Any) -> quiver.Store:
    clock = ManualClock()
    return open_store(
        "store", slots=["s"], config=config, disk=disk, clock=clock, worker=False, core=core
    )


def killed(store: quiver.Store) -> None:
    store._core.progress.let_go()
    store._core.held.release()
    store._closed = True


def damage(disk: MemoryDisk, path: str, at: int) -> None:
    file = disk.open(path, writable=True)
    byte = file.read(at, 1)[0]
    file.write(at, bytes([byte ^ 1]))
    file.close()
