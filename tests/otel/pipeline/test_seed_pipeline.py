"""The example of the design, run as it is written: real receivers, real exporters, loopback."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from otlp_sinks import logs_batch, metrics_batch, spans_batch
from run_child import free_port

import quiver
from quiver.otel import pipeline as pipelines
from quiver.otel.exporters import Endpoint, OtapGrpcExporter, OtlpGrpcExporter, OtlpOptions
from quiver.otel.nodes import Accepted, Delivered
from quiver.otel.pipeline.standard import CODEC

SEED = Path(__file__).parents[3] / "examples" / "pipeline.yaml"

BACKEND = """\
nodes:
  otlp: {{kind: receiver, plugin_urn: "urn:otel:otlp:receiver", config: {{listening_addr: {0}}},
         out_ports: {{o: {{destinations: [shown]}}}}}}
  otap: {{kind: receiver, plugin_urn: "urn:otel:otap:receiver", config: {{listening_addr: {1}}},
         out_ports: {{o: {{destinations: [shown]}}}}}}
  shown: {{kind: exporter, plugin_urn: "urn:otel:console:exporter"}}
"""


class Shown:
    """What a console exporter wrote."""

    def __init__(self) -> None:
        self._text = ""
        self._changed = threading.Condition()

    def write(self, text: str) -> None:
        with self._changed:
            self._text += text
            self._changed.notify_all()

    def wait_for(self, words: dict[str, int]) -> None:
        """Wait until each word is there so often."""
        with self._changed:
            seen = self._changed.wait_for(
                lambda: all(self._text.count(word) >= n for word, n in words.items()), 30
            )
            assert seen, self._text
            assert {word: self._text.count(word) for word in words} == words


@contextmanager
def running(path: Path, shown: Shown | None = None, **variables: str):
    write = (shown or Shown()).write
    with pipelines.open(path, variables=variables, write=write) as pipeline:
        yield pipeline


@contextmanager
def sender(kind: str, address: str):
    options = OtlpOptions(endpoint=Endpoint.parse(address, port=0))
    if kind == "otap":
        exporter = OtapGrpcExporter(options, CODEC.decoded)
    else:
        exporter = OtlpGrpcExporter(options, CODEC.encode)
    try:
        yield exporter
    finally:
        exporter.close()


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    """The example, with ports that are free here."""
    text = SEED.read_text()
    ports = [free_port() for _ in range(4)]
    for before, after in (
        ('grpc_endpoint: "http://127.0.0.1:4318"', f'grpc_endpoint: "http://127.0.0.1:{ports[0]}"'),
        ("}}:1235", f"}}}}:{ports[1]}"),
        ('listening_addr: "127.0.0.1:4317"', f'listening_addr: "127.0.0.1:{ports[2]}"'),
        ('listening_addr: "127.0.0.1:4318"', f'listening_addr: "127.0.0.1:{ports[3]}"'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    (tmp_path / "pipeline.yaml").write_text(text)
    (tmp_path / "backend.yaml").write_text(BACKEND.format(*ports))
    return tmp_path


def test_the_example_takes_and_gives_every_signal_in_both_protocols(seed: Path) -> None:
    shown = Shown()
    with running(seed / "pipeline.yaml", backend_hostname="127.0.0.1") as pipeline:
        (store,) = pipeline.stores["persistence"]
        assert store.path == str(seed / "quiver_data")
        for kind in ("otlp", "otap"):
            (address,) = pipeline.addresses[f"{kind}_receiver"]
            batches = [logs_batch("alpha"), spans_batch("beta"), metrics_batch("gamma")]
            with sender(kind, address) as exporter:
                delivered = [Delivered(batch, None) for batch in batches]
                assert exporter.export(delivered) == [Accepted()] * 3
        # Two senders, and from here each of two exporters gives it to the backend, which is late.
        with running(seed / "backend.yaml", shown):
            shown.wait_for({"alpha": 4, "beta": 4, "gamma": 4})
            assert pipeline.stop() == 0
    with quiver.open(seed / "quiver_data") as store:
        lags = {lag.subscriber: lag.bundle_count for lag in store.lags()}
        assert lags == {"otap_exporter": 0, "otlp_exporter": 0}
