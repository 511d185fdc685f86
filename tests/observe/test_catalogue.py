"""The catalogue: names, spellings, labels, its page, and that each of its lines is alive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from store_kit import bundle, on_memory

import quiver
from quiver.catalogue_otel import RECEIVER_CATALOGUE, TELEMETRY_CATALOGUE
from quiver.metrics import BY_NAME, CATALOGUE, SHIP_CATALOGUE, Metric, Metrics, prometheus_name
from quiver.observe.readings import read_gauges
from quiver.testing import MemoryDisk

ROOT = Path(quiver.__file__).parent
PAGE = ROOT / "observe" / "METRICS.md"
ALL = (*CATALOGUE, *SHIP_CATALOGUE, *TELEMETRY_CATALOGUE)
LABELS = {"role", "subscriber", "reason", "policy", "slot", "station", "kind", "version", "signal"}
UNITS = {"By", "s", "1"}


def spelt(name: str) -> str:
    return prometheus_name(BY_NAME[name])


@pytest.mark.parametrize(
    "name, spelling",
    [
        ("quiver.retention.evicted_segments", "quiver_retention_evicted_segments_total"),
        ("quiver.wal.throttled_appends", "quiver_wal_throttled_appends_total"),
        ("quiver.wal.throttled", "quiver_wal_throttled_seconds_total"),
        ("quiver.subscriber.dropped_bundles", "quiver_subscriber_dropped_bundles_total"),
        ("quiver.segment.dropped", "quiver_segment_dropped_total"),
        ("quiver.segment.dropped_bytes", "quiver_segment_dropped_bytes_total"),
        ("quiver.disk.used", "quiver_disk_used_bytes"),
        ("quiver.disk.cap", "quiver_disk_cap_bytes"),
        ("quiver.wal.sync", "quiver_wal_sync_seconds"),
        ("quiver.wal.bytes", "quiver_wal_bytes"),
        ("quiver.wal.files", "quiver_wal_files"),
        ("quiver.segment.open_bytes", "quiver_segment_open_bytes"),
        ("quiver.segment.open_age", "quiver_segment_open_age_seconds"),
        ("quiver.segment.finalize", "quiver_segment_finalize_seconds"),
        ("quiver.subscriber.lag_segments", "quiver_subscriber_lag_segments"),
        ("quiver.subscriber.oldest_unacked", "quiver_subscriber_oldest_unacked_seconds"),
        ("quiver.subscriber.gaps", "quiver_subscriber_gaps"),
        ("quiver.acks.log_bytes", "quiver_acks_log_bytes"),
        ("quiver.recovery", "quiver_recovery_seconds"),
        ("quiver.damage", "quiver_damage_total"),
        ("quiver.build.info", "quiver_build_info"),
    ],
)
def test_prometheus_spells_each_name_by_one_rule(name, spelling) -> None:
    assert spelt(name) == spelling


def test_no_two_metrics_are_spelt_alike() -> None:
    made = [prometheus_name(metric) for metric in ALL]
    series = [
        f"{name}{end}"
        for metric, name in zip(ALL, made, strict=True)
        for end in (["_bucket", "_count", "_sum"] if metric.kind == "histogram" else [""])
    ]
    assert len(set(series)) == len(series)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_line_of_the_catalogue_is_in_order(metric: Metric) -> None:
    assert re.fullmatch(r"quiver(\.[a-z]+(_[a-z]+)*)+", metric.name)
    assert metric.unit in UNITS or re.fullmatch(r"\{[a-z]+\}", metric.unit)
    assert metric.help.endswith(".")
    assert metric.label == "" or metric.label in LABELS
    assert not metric.values or metric.label
    assert len(set(metric.values)) == len(metric.values)
    assert (metric.kind == "histogram") == bool(metric.bounds)
    assert list(metric.bounds) == sorted(set(metric.bounds))
    # What is a number of things is called by their name, in the plural, or by what befell them.
    assert not metric.name.endswith(("_total", "_seconds", "_count"))


def test_no_metric_has_a_label_without_bounds_but_names_of_subscribers_and_the_version() -> None:
    free = {metric.label for metric in ALL if metric.label and not metric.values}
    assert free == {"subscriber", "version"}


def test_every_gauge_is_read_and_nothing_else() -> None:
    store = on_memory(MemoryDisk(), retention={"size_cap": "1GiB"})
    store.append(bundle(0))
    store.subscribe("reader")
    store.finalize()
    found = {reading.metric.name for reading in read_gauges(store.stats())}
    assert found == {metric.name for metric in CATALOGUE if metric.kind == "gauge"}


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\"(quiver\.[a-z_.]+)\"", text))


def test_every_counter_and_histogram_is_named_where_something_happens() -> None:
    engine = [path for path in ROOT.rglob("*.py") if not path.match("catalogue*.py")]
    found = names_in("".join(path.read_text() for path in engine))
    kept = {metric.name for metric in ALL if metric.kind != "gauge"}
    assert kept - found - {"quiver.wal.syncs"} == set()  # That one is counted by quiver.wal.sync.


def test_metrics_count_by_the_catalogue_that_they_are_of() -> None:
    metrics = Metrics(RECEIVER_CATALOGUE)
    metrics.add("quiver.receiver.items", 3, label="logs")
    assert metrics.read() == {("quiver.receiver.items", "logs"): 3}
    with pytest.raises(KeyError):
        metrics.add("quiver.wal.appended_bundles")


# the page --------------------------------------------------------------------------------------


def table(catalogue: Sequence[Metric] = CATALOGUE) -> list[str]:
    """Give the lines that METRICS.md must have: ``python tests/observe/test_catalogue.py``."""
    lines = ["| OpenTelemetry | Prometheus | kind | unit | label | |", "|---|---|---|---|---|---|"]
    for metric in catalogue:
        label = f"`{metric.label}`" if metric.label else ""
        if metric.values:
            label += ": " + ", ".join(metric.values)
        name, spelling = f"`{metric.name}`", f"`{prometheus_name(metric)}`"
        unit = f"`{metric.unit}`"
        lines.append(f"| {name} | {spelling} | {metric.kind} | {unit} | {label} | {metric.help} |")
    return lines


def test_the_page_has_the_catalogue_line_by_line() -> None:
    lines = PAGE.read_text().splitlines()
    start = 0
    for catalogue in (CATALOGUE, SHIP_CATALOGUE, TELEMETRY_CATALOGUE):
        start = lines.index(table()[0], start)
        end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
        assert lines[start:end] == table(catalogue)
        start = end


def test_the_page_names_no_metric_that_there_is_not() -> None:
    text = PAGE.read_text()
    known = {metric.name for metric in ALL} | {"quiver.observe", "quiver.open", "quiver.ship"}
    seeds = {"quiver.gc.evictions_total", "quiver.retention.size_emergency_total"}
    seeds |= {"quiver.ingest.throttle_total", "quiver.subscriber.dropped_bundles_total"}
    seeds |= {"quiver.segment.dropped_total", "quiver.core.bytes", "quiver.core.cap_fraction"}
    assert set(re.findall(r"`(quiver\.[a-z_.]+)", text)) <= known | seeds
    spellings = {prometheus_name(metric) for metric in ALL}
    assert set(re.findall(r"`(quiver_[a-z_]+)", text)) <= spellings


def test_the_samples_of_the_page_run_as_they_stand(tmp_path, monkeypatch, capsys) -> None:
    samples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(samples) == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("prometheus_client.REGISTRY", CollectorRegistry())
    names: dict[str, object] = {}
    for sample in samples:
        exec(sample.replace(":9464", ":0"), names)  # That port may be taken here.
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


if __name__ == "__main__":
    import sys

    sys.stdout.write("\n".join([*table(), "", *table(SHIP_CATALOGUE)]) + "\n\n")
    sys.stdout.write("\n".join(table(TELEMETRY_CATALOGUE)) + "\n")
