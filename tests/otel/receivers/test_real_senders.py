"""Senders that no one here wrote: SDKs, otelcol-contrib and rotel, into a store."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest
from collector_kit import otelcol, otelcol_missing, rotel, rotel_missing, tailing
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from receiver_kit import PATIENCE, REQUESTS, TOKEN, Notebook, items_of, request_of, served

import quiver
from quiver.errors import CapacityError
from quiver.otel import TELEMETRY, Batch, Signal
from quiver.otel.batch import of_bundle, of_request
from quiver.otel.otlp import count, from_json
from quiver.otel.receivers import Reading, Token

PASSING = Reading(
    decode=lambda signal, request: [of_request(signal, request, count(signal, request))],
    from_json=from_json,
)
"""As a pipeline does that hands on what came."""
LINES = 2000


class Stored(Notebook):
    """An intake that appends to a real store, synced, what it notes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.store = quiver.open(path, slots=TELEMETRY)

    def keep(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self.store.append(batch.bundle)

    def items(self) -> Iterator[tuple[Signal, object]]:
        """Close the store, and give each record, span and metric that is in it."""
        self.store.close()
        with quiver.open(self.store.path, worker=False) as store:
            subscription = store.subscribe("looker")
            while (bundle := subscription.poll()) is not None:
                with bundle:
                    batch = of_bundle(bundle)
                    request = REQUESTS[batch.signal].FromString(request_of(batch))
                    yield from ((batch.signal, item) for item in items_of(batch.signal, request))


@pytest.fixture
def stored(tmp_path) -> Iterator[Stored]:
    found = Stored(str(tmp_path / "store"))
    yield found
    found.store.close()


def bodies_in(stored: Stored) -> list[str]:
    return sorted(item.body.string_value for _, item in stored.items())


def exporters(protocol: str, port: int, *, is_gzip: bool):
    headers = {"authorization": f"Bearer {TOKEN}"}
    if protocol == "grpc":
        import grpc
        from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as logs
        from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as metrics
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as traces

        compression = grpc.Compression.Gzip if is_gzip else grpc.Compression.NoCompression
        options = {"endpoint": f"127.0.0.1:{port}", "insecure": True, "headers": headers}
        paths = [{}, {}, {}]
    else:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http import _log_exporter as logs
        from opentelemetry.exporter.otlp.proto.http import metric_exporter as metrics
        from opentelemetry.exporter.otlp.proto.http import trace_exporter as traces

        compression = Compression.Gzip if is_gzip else Compression.NoCompression
        options = {"headers": headers}
        paths = [{"endpoint": f"http://127.0.0.1:{port}/v1/{signal}"} for signal in Signal]
    kinds = (logs.OTLPLogExporter, traces.OTLPSpanExporter, metrics.OTLPMetricExporter)
    return [
        kind(compression=compression, **options, **path)
        for kind, path in zip(kinds, paths, strict=True)
    ]


def send_all(logs, traces, metrics) -> None:
    """Write 50 records, 50 spans and a counter by the SDK, and have it send them."""
    resource = Resource.create({"service.name": "shop"})
    logger_provider = LoggerProvider(resource, shutdown_on_exit=False)
    logger_provider.add_log_record_processor(BatchLogRecordProcessor(logs))
    tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracer_provider.add_span_processor(BatchSpanProcessor(traces))
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=1e9)
    meter_provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    logger = logging.Logger("shop")  # noqa: LOG001
    logger.addHandler(LoggingHandler(logger_provider=logger_provider))
    tracer = tracer_provider.get_tracer("shop")
    sold = meter_provider.get_meter("shop").create_counter("sold")
    for number in range(50):
        with tracer.start_as_current_span(f"order {number}"):
            logger.warning("order %d", number)
            sold.add(1)
    for provider in (logger_provider, tracer_provider, meter_provider):
        assert provider.force_flush()
        provider.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_gzip", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_all_that_an_sdk_sends_is_in_the_store(stored, protocol, is_gzip) -> None:
    with served(protocol, stored, reading=PASSING, token=Token(TOKEN)) as here:
        send_all(*exporters(protocol, here.port, is_gzip=is_gzip))
        assert here.refused() == {}
    found = list(stored.items())
    names = [getattr(item, "name", "") for _, item in found]
    logs = [item.body.string_value for signal, item in found if signal is Signal.LOGS]
    assert sorted(logs) == sorted(f"order {number}" for number in range(50))
    assert sorted(n for n in names if n.startswith("order")) == sorted(logs)
    sold = [item.sum for _, item in found if getattr(item, "name", "") == "sold"]
    assert [each.data_points[0].as_int for each in sold][-1] == 50


def write_lines(path) -> list[str]:
    lines = [f"line {number:05} " + "x" * (number % 200 + 1) for number in range(LINES)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return lines


@pytest.mark.skipif(bool(otelcol_missing()), reason=otelcol_missing())
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_each_line_that_otelcol_reads_is_in_the_store(stored, tmp_path, compression) -> None:
    lines = write_lines(tmp_path / "app.log")
    with served("http", stored, reading=PASSING) as here:
        endpoint = f"http://{here.address}"
        config = tailing(tmp_path / "app.log", endpoint, compression=compression)
        stored.error = CapacityError("full")  # The first ones are to come again.
        stored.may_go.clear()
        with otelcol(tmp_path, config) as collector:
            stored.await_waiting(1)
            stored.may_go.set()
            stored.await_refused(1)
            stored.error = None
            stored.await_items(LINES)
            assert collector.stop() == 0
    assert bodies_in(stored) == lines


@pytest.mark.skipif(bool(rotel_missing()), reason=rotel_missing())
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_rotel_hands_on_is_in_the_store(stored, tmp_path, protocol) -> None:
    import grpc
    from receiver_kit import logs_request

    with served(protocol, stored, reading=PASSING) as here:
        with rotel(tmp_path, f"http://{here.address}", protocol) as collector:
            with grpc.insecure_channel(f"127.0.0.1:{collector.ports[0]}") as channel:
                export = channel.unary_unary(
                    "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
                )
                for number in range(20):
                    texts = [f"line {number * 50 + each}" for each in range(50)]
                    export(logs_request(*texts), timeout=PATIENCE)
            stored.await_items(1000)
        assert here.refused() == {}
    assert bodies_in(stored) == sorted(f"line {number}" for number in range(1000))
