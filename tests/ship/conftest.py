"""What the tests of the queue have of real servers; SeaweedFS is there for all rooms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from azurite import AzuriteServer, azurite_missing
from seaweed import SeaweedServer

_COUNT = itertools.count()


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
