"""Producers and consumers of queues as Prometheus sees them."""

from __future__ import annotations

import pytest
from ends_kit import WAIT, Rig
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from quiver.metrics import SHIP_CATALOGUE, prometheus_name
from quiver.observe import QueueCollector


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


def scraped(watched) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(QueueCollector(watched))
    text = generate_latest(registry).decode()
    return {
        (sample.name, *(v for _, v in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_both_ends_of_a_queue_are_seen_under_its_name(rig) -> None:
    producer, consumer = rig.producer(flush_interval="1h"), rig.consumer()
    producer.produce([b"abc"], b"m")
    producer.flush(WAIT)
    rig.clock.step("2s")
    consumer.next_batch()
    found = scraped({"events": [producer, consumer]})
    assert found["quiver_ship_flushed_batches_total", "events"] == 1
    assert found["quiver_ship_flushed_bytes_total", "events"] == 4
    assert found["quiver_ship_collected_records_total", "events"] == 1
    assert found["quiver_ship_manifest_writes_total", "events", "producer"] == 1
    assert found["quiver_ship_manifest_writes_total", "events", "consumer"] == 1
    assert found["quiver_ship_lag_seconds", "events"] == 2
    assert found["quiver_ship_queue_length", "events"] == 1
    assert found["quiver_ship_waiting_bytes", "events"] == 0
    assert found["quiver_ship_dead_letters_total", "events"] == 0
    assert found["quiver_ship_flush_seconds_count", "events"] == 1
    assert found["quiver_ship_fetch_seconds_bucket", "+Inf", "events"] == 1


def test_each_metric_of_the_catalogue_is_given_and_no_other(rig) -> None:
    found = scraped({"events": [rig.producer(), rig.consumer()]})
    names = {name for name, *_ in found}
    ends = {"histogram": "_count", "counter": "", "gauge": ""}
    for metric in SHIP_CATALOGUE:
        assert prometheus_name(metric) + ends[metric.kind] in names
    known = tuple(prometheus_name(metric) for metric in SHIP_CATALOGUE)
    assert all(name.startswith(known) for name in names)


def test_an_end_gives_what_is_its_own_and_several_are_added_up(rig) -> None:
    producers = [rig.producer(), rig.producer()]
    for producer in producers:
        producer.produce([b"x"])
        producer.flush(WAIT)
    found = scraped({"events": producers, "others": rig.consumer()})
    assert found["quiver_ship_flushed_batches_total", "events"] == 2
    assert found["quiver_ship_flush_seconds_count", "events"] == 2
    assert ("quiver_ship_collected_batches_total", "events") not in found
    assert ("quiver_ship_flushed_batches_total", "others") not in found


def test_an_empty_registry_says_nothing() -> None:
    assert scraped({}) == {}
