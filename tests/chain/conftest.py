"""What the tests of a chain share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chain_world import World
from copies_kit import LAYOUT, ROUTE, copies
from etcd_kit import EtcdServer, etcd_missing, running_etcd

from quiver.testing import MemoryDisk


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    if missing := etcd_missing():
        pytest.skip(missing)
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def world() -> World:
    """Three machines in memory; some files have worlds of their own."""
    return World(3)


@pytest.fixture
def loader(world):
    """The loader of a partition, whose first block is open."""
    made = world.loader()
    assert world.run(lambda: made.record is not None)
    return made


@pytest.fixture
def disk() -> MemoryDisk:
    """Nothing on it; some files have disks of their own."""
    return MemoryDisk()


@pytest.fixture
def shelf(disk):
    """A node's copies, with room for one block."""
    made = copies(disk)
    made.prepare(ROUTE, LAYOUT)
    return made
