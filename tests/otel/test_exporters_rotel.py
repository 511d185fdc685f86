"""A collector that nobody here wrote stands downstream, is killed, and comes back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from collector_kit import Rotel, rotel_missing
from otlp_sinks import GrpcSink, grpc_sink, logs_batch

import quiver
from quiver.clock import SystemClock
from quiver.otel.delivery import Delivery, Policy
from quiver.otel.exporters import (
    Endpoint,
    OtlpGrpcExporter,
    OtlpHttpExporter,
    OtlpOptions,
    joined,
)
from quiver.otel.signals import TELEMETRY
from quiver.units import MILLISECOND

pytestmark = pytest.mark.skipif(bool(rotel_missing()), reason=rotel_missing())

LOOKS_MAX = 400
"""A twentieth of a second apart."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait, but not for ever."""
    for _ in range(LOOKS_MAX):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"waited in vain for {what}")


@pytest.fixture
def sink() -> Iterator[GrpcSink]:
    with grpc_sink() as made:
        yield made


def test_what_is_appended_while_a_collector_is_down_arrives_when_it_is_back(
    tmp_path: Path, sink: GrpcSink
) -> None:
    rotel = Rotel(tmp_path, sink.port)
    clock = SystemClock()
    quick = Policy(retry_first=20 * MILLISECOND, retry_max=200 * MILLISECOND, gate_max=10**8)
    made = {
        "grpc": OtlpGrpcExporter(_to(rotel.ports[0], "gzip"), joined),
        "http": OtlpHttpExporter(_to(rotel.ports[1], "none"), joined, clock=clock),
    }
    with quiver.open(tmp_path / "store", slots=TELEMETRY) as store:
        deliveries = [
            Delivery(store.subscribe(name), exporter, clock=clock, policy=quick)
            for name, exporter in made.items()
        ]
        threads = [threading.Thread(target=each.run) for each in deliveries]
        for thread in threads:
            thread.start()
        expected: list[str] = []
        try:
            for life in range(2):
                names = [f"{life}-{n}" for n in range(20)]
                for name in names:
                    batch = logs_batch(name)
                    seq = store.append(batch.bundle)
                    for each in deliveries:
                        each.offer(seq, batch)
                expected += names
                store.finalize()
                until(lambda: all(each.is_blocked for each in deliveries), "both to be told")
                rotel.start()
                arrive(sink, expected)
                rotel.kill()
                # Now each of them finds out by itself that nobody is there.
                store.append(logs_batch(f"{life}-last").bundle)
                store.finalize()
                expected.append(f"{life}-last")
            rotel.start()
            arrive(sink, expected)
            until(lambda: all(not store.lag(n).bundle_count for n in made), "all acks")
        finally:
            for each in deliveries:
                each.stop()
            for thread in threads:
                thread.join(30)
            rotel.kill()
    # One that was killed before it answered got a batch twice.
    assert set(sink.texts) == set(expected)
    for each in deliveries:
        counts = each.report.metrics.read()
        assert counts["quiver.exporter.sent_batches", ""] == len(expected)
        assert counts["quiver.exporter.retried_batches", ""] >= 2


def arrive(sink: GrpcSink, expected: list[str]) -> None:
    def is_there() -> bool:
        found = Counter(sink.texts)
        return all(found[text] >= 2 for text in expected)

    until(is_there, f"{len(expected)} records from both")


def _to(port: int, compression: str) -> OtlpOptions:
    where = Endpoint.parse(f"127.0.0.1:{port}", port=1)
    return OtlpOptions(endpoint=where, compression=compression, in_flight=4)  # type: ignore[arg-type]
