from __future__ import annotations

import pytest
import upstream_kit as kit
from takeover_kit import write_core

from quiver.testing import MemoryDisk
from quiver.upstream import UpstreamLog


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def folder(disk) -> kit.Folder:
    return kit.Folder(disk)


@pytest.fixture
def source(disk, folder) -> MemoryDisk:
    write_core(folder)
    return disk


@pytest.fixture
def read(disk, folder):
    """Read the log of the folder; nothing on the disk may have changed by it."""

    def act() -> UpstreamLog:
        before = disk.tree.digest()
        log = UpstreamLog(disk, "wal")
        list(log.bundles())
        assert disk.tree.digest() == before
        assert not disk._locked
        return log

    return act
