"""Real servers for the tests of the queue, each started for the first test that asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from azurite import AzuriteServer, azurite_missing
from seaweed import SeaweedServer, seaweed_missing

_COUNT = itertools.count()


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    if missing := seaweed_missing():
        pytest.skip(missing)
    server = SeaweedServer(tmp_path_factory.mktemp("seaweed"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzuriteServer]:
    if missing := azurite_missing():
        pytest.skip(missing)
    server = AzuriteServer(tmp_path_factory.mktemp("azurite"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def queue_url(seaweed: SeaweedServer) -> str:
    """An address below which there is nothing yet."""
    return f"{seaweed.url}/t{next(_COUNT)}"
