"""Instruments of a meter, read by OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from store_kit import bundle, on_memory

import quiver
from quiver.errors import InputError
from quiver.metrics import CATALOGUE
from quiver.observe import Observer, instrument
from quiver.observe.snapshot import StoreStats
from quiver.testing import MemoryDisk

KINDS = {"counter": "Sum", "gauge": "Gauge", "histogram": "Histogram"}


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def meter(reader) -> Iterator[api.Meter]:
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider.get_meter("test")
    provider.shutdown()


def collect(reader: InMemoryMetricReader) -> dict[str, Any]:
    """Give each metric that was told, by name."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    (scope,) = data.resource_metrics[0].scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def values(metric: Any) -> dict[tuple[tuple[str, Any], ...], float]:
    return {tuple(sorted(p.attributes.items())): p.value for p in metric.data.data_points}


def test_each_metric_of_the_catalogue_is_an_instrument_of_its_kind(reader, meter) -> None:
    with on_memory(MemoryDisk(), retention={"size_cap": "1GiB"}) as store:
        with instrument(store, meter):
            store.subscribe("reader")
            store.append(bundle(0))
            store.finalize()
            found = collect(reader)
        assert set(found) == {metric.name for metric in CATALOGUE}
        for metric in CATALOGUE:
            told = found[metric.name]
            assert type(told.data).__name__ == KINDS[metric.kind]
            assert (told.unit, told.description) == (metric.unit, metric.help)
            assert getattr(told.data, "is_monotonic", True)
        assert values(found["quiver.wal.appended_bundles"]) == {(("core", "0"),): 1}
        key = (("core", "0"), ("subscriber", "reader"))
        assert values(found["quiver.subscriber.lag_bundles"])[key] == 1


def test_histograms_hear_each_duration_as_it_is(reader, meter) -> None:
    with on_memory(MemoryDisk()) as store:
        store.append(bundle(0))
        with instrument({"orders": store}, meter):
            store.append(bundle(1))
            store.append(bundle(2))
            found = collect(reader)
            (sync,) = found["quiver.wal.sync"].data.data_points
            assert sync.count == 2  # The one before it was instrumented is not in it,
            (recovery,) = found["quiver.recovery"].data.data_points
            assert recovery.count == 1  # but the recovery is.
            assert dict(sync.attributes) == {"core": "0", "store": "orders"}
            bounds = {m.name: m.bounds for m in CATALOGUE if m.bounds}
            assert tuple(sync.explicit_bounds) == bounds["quiver.wal.sync"]
            assert tuple(recovery.explicit_bounds) == bounds["quiver.recovery"]
        store.append(bundle(3))
        (sync,) = collect(reader)["quiver.wal.sync"].data.data_points
        assert sync.count == 2  # It was closed.


def test_one_collection_is_one_look(reader, meter) -> None:
    disk, looks = MemoryDisk(), []

    class Counting(Observer):
        def look(self) -> StoreStats:
            looks.append(1)
            return super().look()

    with on_memory(disk) as store, instrument(Counting("memory", disk=disk), meter):
        for number in range(3):
            store.append(bundle(number))
            found = collect(reader)
            assert values(found["quiver.wal.next_seq"]) == {(("core", "0"),): number + 1}
    assert len(looks) == 3
    assert {m.name for m in CATALOGUE if m.kind == "gauge"} > set(found)
    assert "quiver.wal.appended_bundles" not in found


def test_a_closed_store_and_a_closed_instrument_say_nothing(reader, meter) -> None:
    store = on_memory(MemoryDisk())
    instrumented = instrument(store, meter)
    assert "quiver.wal.files" in collect(reader)
    store.close()
    assert "quiver.wal.files" not in collect(reader)
    instrumented.close()
    instrumented.close()
    assert store.instruments._listeners == ()


def test_two_stores_of_one_core_need_names(meter) -> None:
    with pytest.raises(InputError, match="give them names"):
        instrument([on_memory(MemoryDisk()), on_memory(MemoryDisk())], meter)


def test_without_a_meter_it_is_that_of_the_global_provider(monkeypatch) -> None:
    asked = []

    def get_meter(*arguments: Any) -> api.Meter:
        asked.append(arguments)
        return api.NoOpMeter("quiver")

    monkeypatch.setattr("quiver.observe.otel.get_meter", get_meter)
    with on_memory(MemoryDisk()) as store, instrument(store):
        store.append(bundle(0))
    assert asked == [("quiver", quiver.__version__)]
