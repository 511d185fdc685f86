"""Counters that know the catalogue, and histograms."""

from __future__ import annotations

import threading

import pytest

from quiver.metrics import BY_NAME, Histogram, Metrics

MS = 1_000_000
SYNC = "quiver.wal.sync"


@pytest.mark.parametrize(
    "name, label",
    [
        ("quiver.wal.apended", ""),
        ("quiver.wal.appended_bytes", "x"),  # It has no label,
        ("quiver.segment.dropped", "boredom"),  # this one not that value,
        ("quiver.wal.bytes", ""),  # a gauge is read,
        (SYNC, ""),  # a histogram observed,
        ("quiver.wal.syncs", ""),  # and this one counted by a histogram.
    ],
)
def test_what_the_catalogue_does_not_have_is_not_counted(name, label) -> None:
    metrics = Metrics()
    with pytest.raises(KeyError):
        metrics.add(name, label=label)
    assert metrics.read() == {}


def test_a_label_may_be_one_of_its_values_or_any_name_or_nothing() -> None:
    metrics = Metrics()
    metrics.add("quiver.segment.dropped", label="age")
    metrics.add("quiver.segment.dropped", 2)
    metrics.add("quiver.subscriber.dead_letters", 3, label="somebody")
    assert metrics.read() == {
        ("quiver.segment.dropped", "age"): 1,
        ("quiver.segment.dropped", ""): 2,
        ("quiver.subscriber.dead_letters", "somebody"): 3,
    }


def test_each_duration_is_in_the_first_bucket_that_it_does_not_pass() -> None:
    metrics = Metrics()
    bounds = BY_NAME[SYNC].bounds
    bounds_ns = [round(bound * 1e9) for bound in bounds]
    for bound in bounds_ns:
        metrics.observe(SYNC, bound)
    metrics.observe(SYNC, bounds_ns[3] + 1)
    metrics.observe(SYNC, 0)
    metrics.observe(SYNC, bounds_ns[-1] + 1)
    expected = [1] * len(bounds)
    expected[0] += 1
    expected[4] += 1
    total = sum(bounds_ns) + bounds_ns[3] + 1 + bounds_ns[-1] + 1
    assert metrics.read_histograms()[SYNC] == Histogram(bounds, (*expected, 1), total)


def test_syncs_are_counted_by_their_histogram() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.observe(SYNC, MS)
    assert metrics.read() == {("quiver.wal.syncs", ""): 3}


def test_a_histogram_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().observe("quiver.wal.syncs", 1)


def test_durations_of_many_threads_are_all_there() -> None:
    metrics = Metrics()
    work = [threading.Thread(target=lambda: [metrics.observe(SYNC, MS) for _ in range(1000)])]
    work += [threading.Thread(target=lambda: [metrics.observe(SYNC, 2 * MS) for _ in range(1000)])]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    found = metrics.read_histograms()[SYNC]
    assert (sum(found.counts), found.sum_ns) == (2000, 3000 * MS)


def test_whoever_listens_hears_each_duration_until_it_leaves() -> None:
    metrics, heard, other = Metrics(), [], []
    leave = metrics.listen(lambda name, duration: heard.append((name, duration)))
    metrics.listen(lambda name, duration: other.append((name, duration)))
    metrics.observe(SYNC, MS)
    leave()
    leave()
    metrics.observe("quiver.recovery", 2 * MS)
    assert heard == [(SYNC, MS)]
    assert other == [(SYNC, MS), ("quiver.recovery", 2 * MS)]
