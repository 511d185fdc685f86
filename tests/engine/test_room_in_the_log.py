"""An append that comes while files of the log are deleted without the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from gated_disk import PATIENCE
from store_kit import bundle, on_memory

import quiver
from quiver.engine import ingest
from quiver.testing import MemoryDisk

MAX_SIZE = 6000
LARGE = {"events": pa.record_batch({"n": range(400)})}
"""What is left of the log, were it only counted, has no room for it."""
CONFIG = {
    "wal": {"rotate_size": 1500, "reclaim_size": 1, "max_size": MAX_SIZE},
    "limits": {"entry_bytes": MAX_SIZE},
}


class Deleting(MemoryDisk):
    """A disk that lets others act before it deletes a file of the log."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def unlink(self, path: str) -> None:
        if "/wal/" in path:
            meanwhile, self.meanwhile = self.meanwhile, lambda: None
            meanwhile()
        super().unlink(path)


def test_it_waits_until_they_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Deleting()
    store = on_memory(disk, **CONFIG)
    store.subscribe("reader")
    log, count = store._core.log, 1
    store.append(bundle(0))
    while log.live_bytes * (count + 1) <= MAX_SIZE * count:
        store.append(bundle(count))
        count += 1
    came, failures = threading.Event(), []

    def wait_for_writer(core) -> None:
        came.set()
        sealed_wait(core)

    sealed_wait = ingest.wait_for_writer
    monkeypatch.setattr(ingest, "wait_for_writer", wait_for_writer)

    def append() -> None:
        try:
            store.append(LARGE)
        except quiver.QuiverError as error:
            failures.append(error)
        came.set()

    appender = threading.Thread(target=append, daemon=True)

    def meanwhile() -> None:
        appender.start()
        assert came.wait(PATIENCE)

    disk.meanwhile = meanwhile
    store.finalize()
    appender.join(PATIENCE)
    assert failures == []
    store.finalize()
    assert store.info().open_bundles == 0
    assert store.lag("reader").bundle_count == count + 1
