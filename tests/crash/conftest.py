"""What the tests have that kill real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from seaweed import SeaweedServer, running, seaweed_missing


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedServer]:
    """A server of their own, for it is killed too."""
    if missing := seaweed_missing():
        pytest.skip(missing)
    with running(tmp_path_factory.mktemp("server")) as found:
        yield found
