"""Each connector keeps what every connector has to keep."""

from __future__ import annotations

from contextlib import closing

import pytest
from source_rigs import FilesRig, NatsRig, NatsServer, ToyRig, nats_missing

from quiver.testing.source_conformance import SourceConformance


class TestToy(SourceConformance):
    @pytest.fixture
    def rig(self):
        return ToyRig()


class TestFiles(SourceConformance):
    @pytest.fixture(params=["parquet", "arrow", "arrows", "csv", "ndjson"])
    def rig(self, request, tmp_path):
        with closing(FilesRig(tmp_path, request.param)) as rig:
            yield rig


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory):
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    yield server
    server.stop()


@pytest.mark.skipif(bool(nats_missing()), reason=nats_missing() or "-")
class TestNats(SourceConformance):
    @pytest.fixture(params=["whole", "by subject"])
    def rig(self, request, nats_server):
        subjects = ("a", "b") if request.param == "by subject" else ()
        name = f"{request.node.originalname}-{request.param}".replace(" ", "-")
        with closing(NatsRig(nats_server, name, subjects)) as rig:
            yield rig
