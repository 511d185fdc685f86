"""What the tests of a chain share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from etcd_kit import EtcdServer, etcd_missing, running_etcd


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    if missing := etcd_missing():
        pytest.skip(missing)
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server
