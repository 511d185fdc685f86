"""The collector and its endpoint, read back by Prometheus's own parsers."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from store_kit import SLOTS, bundle, on_memory

import quiver
from quiver.errors import InputError, MissingError, StorageError
from quiver.metrics import CATALOGUE, prometheus_name
from quiver.observe import Collector, Observer, serve
from quiver.testing import ManualClock, MemoryDisk

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(watched) -> Samples:
    registry = CollectorRegistry()
    registry.register(Collector(watched))
    found: Samples = {}
    for family in parse_text(generate_latest(registry).decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset({"core": "0", **labels}.items())]


@pytest.fixture
def store() -> Iterator[quiver.Store]:
    with on_memory(MemoryDisk(), retention={"size_cap": "1GiB"}) as store:
        subscription = store.subscribe("reader")
        for number in range(4):
            store.append(bundle(number))
        store.finalize()
        subscription.poll().ack()
        store.append(bundle(4))
        yield store


def test_counters_gauges_and_histograms_say_what_the_store_says(store) -> None:
    found = samples(store)
    info, lag = store.info(), store.lag("reader")
    assert value(found, "quiver_wal_appended_bundles_total") == 5
    assert value(found, "quiver_segment_finalized_segments_total") == 1
    assert value(found, "quiver_wal_next_seq") == 5
    assert value(found, "quiver_segment_open_bundles") == 1
    assert value(found, "quiver_segment_open_bytes") == info.open_bytes
    assert value(found, "quiver_disk_cap_bytes") == 1 << 30
    assert value(found, "quiver_subscriber_lag_bundles", subscriber="reader") == 3
    assert value(found, "quiver_subscriber_lag_bytes", subscriber="reader") == lag.byte_count
    assert value(found, "quiver_store_stopped") == 0
    assert value(found, "quiver_build_info", version=quiver.__version__) == 1
    for histogram, count in (("wal_sync", 5), ("segment_finalize", 1), ("recovery", 1)):
        name = f"quiver_{histogram}_seconds"
        assert value(found, f"{name}_count") == value(found, f"{name}_bucket", le="+Inf") == count


def test_durations_are_by_the_clock_of_the_store() -> None:
    clock = ManualClock()
    store = quiver.open("memory", slots=SLOTS, disk=MemoryDisk(), clock=clock, worker=False)
    honest = store._core.log.sync

    def slow(place) -> None:
        honest(place)
        clock.step("3ms")

    store._core.log.sync = slow
    for number in range(2):
        store.append(bundle(number))
    found = samples(store)
    assert value(found, "quiver_wal_sync_seconds_sum") == pytest.approx(0.006)
    buckets = {
        float(dict(labels)["le"]): count
        for (name, labels), count in found.items()
        if name == "quiver_wal_sync_seconds_bucket"
    }
    assert [buckets[bound] for bound in (0.0025, 0.005, 0.01, float("inf"))] == [0, 2, 2, 2]
    assert list(buckets.values()) == sorted(buckets.values())


def test_every_metric_of_the_catalogue_is_there_and_no_other(store) -> None:
    ends = ("", "_bucket", "_sum", "_count")
    known = {prometheus_name(metric) + end for metric in CATALOGUE for end in ends}
    names = {name for name, _ in samples(store)}
    assert names <= known
    lacking = {m.name for m in CATALOGUE if not any(prometheus_name(m) + e in names for e in ends)}
    assert lacking == set()


def test_what_never_happened_is_zero_where_its_labels_are_known(store) -> None:
    found = samples(store)
    assert value(found, "quiver_segment_dropped_total", reason="size") == 0
    assert value(found, "quiver_subscriber_dropped_bundles_total", subscriber="reader") == 0
    assert value(found, "quiver_damage_total", kind="wal") == 0
    assert ("quiver_segment_dropped_total", frozenset({("core", "0")})) not in found


def test_openmetrics_can_be_parsed_and_says_the_same(store) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(store))
    text = generate_openmetrics(registry).decode()
    kinds = {family.name: family.type for family in parse_openmetrics(text)}
    for metric in CATALOGUE:
        assert kinds[prometheus_name(metric).removesuffix("_total")] == metric.kind


def test_an_observer_gives_the_gauges_that_the_folder_tells(store) -> None:
    disk, clock = store._core.disk, store._core.clock
    seen = samples(Observer("memory", disk=disk, clock=clock, size_cap=1 << 30))
    own = {key: number for key, number in samples(store).items() if key in seen}
    assert not any(name.endswith(("_total", "_count")) for name, _ in seen)
    assert {name for name, _ in own} == {name for name, _ in seen}
    unlike = {"quiver_wal_bytes", "quiver_disk_used_bytes"}  # The log on the disk, and what counts.
    assert {k: v for k, v in seen.items() if k[0] not in unlike} == {
        k: v for k, v in own.items() if k[0] not in unlike
    }


def test_stores_are_told_apart_by_core_or_by_name() -> None:
    disk = MemoryDisk()
    first = quiver.open("memory", slots=SLOTS, disk=disk, clock=ManualClock(), worker=False)
    second = quiver.open("memory", disk=disk, clock=ManualClock(), core=7, worker=False)
    other = on_memory(MemoryDisk())
    second.append(bundle(0))
    found = samples([first, second])
    assert found["quiver_wal_next_seq", frozenset({("core", "7")})] == 1
    assert found["quiver_wal_next_seq", frozenset({("core", "0")})] == 0
    named = samples({"orders": first, "users": other})
    assert value(named, "quiver_wal_files", store="orders") == 1
    assert value(named, "quiver_wal_files", store="users") == 1
    with pytest.raises(InputError, match="two stores have core 0"):
        Collector([first, other])


def test_a_closed_store_has_nothing_to_say_and_a_stopped_one_says_so(store) -> None:
    store._core.fault = OSError("a failed sync")
    assert value(samples(store), "quiver_store_stopped") == 1
    store._core.fault = None
    store.close()
    assert samples(store) == {}


def test_a_store_that_is_closed_under_a_scrape_is_silent_and_a_fault_is_not(store) -> None:
    disk = store._core.disk
    honest = disk.list_dir

    def close_first(path: str) -> list[object]:
        disk.list_dir = honest
        store.close()
        raise StorageError("the folder was let go of")

    def fail(path: str) -> list[object]:
        raise StorageError("the disk refused")

    disk.list_dir = fail
    with pytest.raises(StorageError, match="the disk refused"):
        samples(store)
    disk.list_dir = close_first
    assert samples(store) == {}


def test_a_registry_refuses_a_second_collector(store) -> None:
    registry = CollectorRegistry()
    registry.register(Collector(store))
    with pytest.raises(ValueError, match="quiver_wal_bytes"):
        registry.register(Collector(on_memory(MemoryDisk())))


# endpoint --------------------------------------------------------------------------------------


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_the_endpoint_answers_until_it_is_closed(store) -> None:
    with serve(store, "0") as endpoint:
        assert endpoint.url.startswith("http://127.0.0.1:")
        assert "quiver_wal_appended_bundles_total{" in fetch(endpoint.url)
        assert "python_info" not in fetch(endpoint.url)
    endpoint.close()
    with pytest.raises(OSError, match="refused"):
        fetch(endpoint.url)


def test_a_folder_that_goes_is_an_error_of_the_scrape_and_not_an_old_answer(tmp_path) -> None:
    quiver.open(tmp_path / "s", slots=SLOTS, worker=False).close()
    with Observer(str(tmp_path / "s")) as observer, serve(observer, "0") as endpoint:
        assert "quiver_wal_files" in fetch(endpoint.url)
        (tmp_path / "s" / "quiver.json").unlink()
        with pytest.raises(MissingError):
            list(Collector(observer).collect())


def test_a_port_that_is_taken_is_an_input_error(store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}: ") as caught:
            serve(store, str(port))
    assert "HOST:PORT" in caught.value.hint


MISSING = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
import quiver.observe
quiver.observe.Observer
try:
    quiver.observe.{name}
except ModuleNotFoundError as error:
    print(error, error.name)
"""


@pytest.mark.parametrize(
    "name, hidden, extra",
    [
        ("serve", ["prometheus_client"], "prometheus"),
        ("instrument", ["opentelemetry", "opentelemetry.metrics"], "otel"),
    ],
)
def test_an_extra_that_is_missing_is_named(name, hidden, extra) -> None:
    code = MISSING.format(name=name, hidden=hidden)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install 'quiver-store[{extra}]'" in done.stdout
    assert done.stdout.split()[-1].startswith(hidden[0])


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        quiver.observe.nothing  # noqa: B018
