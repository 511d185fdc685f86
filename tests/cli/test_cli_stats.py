"""``stats``, ``serve-metrics``, ``--metrics``: a store in numbers, for people and Prometheus."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import quiver
from quiver.cli import scraping

PATIENCE = 60


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


def sample(text: str, name: str) -> float:
    (found,) = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(found)


# stats -----------------------------------------------------------------------------------------


def test_the_numbers_of_a_store(run, filled, kit) -> None:
    before = kit.tree_digest(filled)
    found = run("stats", filled, "--json").document
    (core,) = found["cores"]
    info = run("info", filled, "--json").document["cores"][0]
    assert core["segment_count"] == info["segments"]["segment_count"] == 1
    assert core["open_bundle_count"] == info["open_segment"]["bundle_count"] == 2
    assert core["open_payload_bytes"] == info["open_segment"]["payload_bytes"]
    assert core["wal_bytes"] == info["wal"]["used_bytes"]
    assert core["next_wal_seq"] == info["wal"]["wal_seq_last"] + 1
    assert core["acks_log_bytes"] == info["acks"]["log_bytes"]
    assert core["cap_bytes"] is None
    parts = ("wal", "segment", "acks", "quarantine", "dead_letter", "reserve")
    assert core["used_bytes"] == sum(core[f"{part}_bytes"] for part in parts)
    assert found["used_bytes"] == core["used_bytes"]
    lags = {item["name"]: item for item in run("lag", filled, "--json").lines}
    assert {one["name"] for one in core["subscribers"]} == set(lags) == {"parquet", "spark"}
    for one in core["subscribers"]:
        for name in ("open_bundle_count", "open_bytes", "waiting_bundle_count", "pinned_bytes"):
            assert one[name] == lags[one["name"]][name]
    assert kit.tree_digest(filled) == before


def test_for_people(run, store) -> None:
    with quiver.open(store, core=2, worker=False) as opened:
        opened.append({"logs": pa.table({"n": [1]})})
    result = run("stats", store, "--size-cap", "10MiB")
    lines = result.out.splitlines()
    assert lines[0].startswith(f"store  {store}, id ")
    assert lines[1] == "cores"
    assert [line.split()[0] for line in lines[2:5]] == ["core", "0", "2"]
    assert all("5.2MB" in line for line in lines[3:5])  # Each has half of the cap.
    names = [line.split()[:2] for line in lines[6:9]]
    assert names == [["subscriber", "core"], ["parquet", "0"], ["spark", "0"]]
    assert lines[-1].endswith("used of 10.5MB")
    assert result.err == ""


def test_what_cannot_be_read_is_told_and_the_rest_is_counted(run, store, kit) -> None:
    (segment,) = (store / "core_0/segments").iterdir()
    kit.flip(segment, segment.stat().st_size - 5)
    result = run("stats", store, "--json")
    assert result.code == 0
    assert result.err.startswith(f"quiver: passed over {segment}: ")
    (told,) = result.document["passed_over"]
    assert told in result.err
    assert result.document["cores"][0]["segment_count"] == 0


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["stats", "nowhere"], 3, "no folder"),
        (["serve-metrics", "nowhere"], 3, "no folder"),
        (["stats", "STORE", "--size-cap", "much"], 2, "--size-cap"),
        (["serve-metrics", "STORE", "--address", "x"], 2, "no address"),
        (["ingest", "new", "--slot", "a=a.csv", "--metrics", "x"], 2, "no address"),
        (["export", "STORE", "--slot", "logs", "--out", "new", "--metrics", "x"], 2, "no address"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_done(
    run, filled, tmp_path, monkeypatch, arguments, code, message
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(filled) if word == "STORE" else word for word in arguments]
    if words[0] == "export":
        words += ["--subscriber", "s"]
    result = run(*words)
    assert result.code == code
    assert message in result.err
    assert list(tmp_path.iterdir()) == []


# serve-metrics ---------------------------------------------------------------------------------


@contextmanager
def serving(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "quiver", *(str(argument) for argument in arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_folder_is_served_beside_its_writer_until_a_signal_comes(store, number) -> None:
    with (
        quiver.open(store, worker=False) as opened,
        serving(
            "serve-metrics", store, "--address", "0", "--size-cap", "1GiB", "--json"
        ) as running,
    ):
        line = json.loads(running.stdout.readline())
        assert (line["kind"], line["path"]) == ("endpoint", str(store))
        before = sample(fetch(line["url"]), 'quiver_wal_next_seq{core="0"}')
        opened.append({"logs": pa.table({"n": [1]})})
        text = fetch(line["url"])
        assert sample(text, 'quiver_wal_next_seq{core="0"}') == before + 1
        assert sample(text, 'quiver_disk_cap_bytes{core="0"}') == 1 << 30
        assert "_total{" not in text
        running.send_signal(number)
        out, err = running.communicate(timeout=PATIENCE)
        assert (running.returncode, out, err) == (0, "", "")


def test_for_people_it_says_where(store) -> None:
    with serving("serve-metrics", store, "--address", "0") as running:
        path, url = running.stdout.readline().split()
        assert path == f"{store}:"
        assert "quiver_segment_files" in fetch(url)


# --metrics -------------------------------------------------------------------------------------


@pytest.fixture
def scraped_at_end(monkeypatch) -> list[str]:
    """What an endpoint answers last, of each that a verb opened."""
    texts: list[str] = []
    honest = scraping.open_endpoint

    @contextmanager
    def opening(watched: object, address: str) -> Iterator[object]:
        with honest(watched, address) as endpoint:
            yield endpoint
            texts.append(fetch(endpoint.url))

    monkeypatch.setattr(scraping, "open_endpoint", opening)
    return texts


def test_ingest_answers_with_all_metrics_of_its_store(run, tmp_path, scraped_at_end) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n3\n")
    slot = ("--slot", f"a={tmp_path / 'a.csv'}", "--batch-rows", 1)
    result = run("ingest", tmp_path / "s", *slot, "--metrics", "0")
    assert result.code == 0
    assert result.err.startswith("metrics: http://127.0.0.1:")
    (text,) = scraped_at_end
    assert sample(text, 'quiver_wal_appended_bundles_total{core="0"}') == 3
    assert sample(text, 'quiver_segment_finalize_seconds_count{core="0"}') == 1
    assert run("ingest", tmp_path / "s", *slot).err == ""
    assert len(scraped_at_end) == 1


def test_export_answers_with_what_the_folder_tells(run, store, tmp_path, scraped_at_end) -> None:
    arguments = ("--slot", "logs", "--subscriber", "lake", "--out", tmp_path / "out")
    result = run("export", store, *arguments, "--metrics", "0", "-q")
    assert (result.code, result.err) == (0, "")
    (text,) = scraped_at_end
    assert sample(text, 'quiver_subscriber_lag_bundles{core="0",subscriber="parquet"}') == 2


def test_without_its_package_it_says_which_extra_to_install(run, filled, monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "quiver.observe.prometheus", raising=False)
    monkeypatch.delattr("quiver.observe.prometheus", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = run("serve-metrics", filled)
    assert result.code == 2
    assert result.err.splitlines() == [
        "quiver: metrics need the package 'prometheus_client'",
        "hint: pip install 'quiver-store[prometheus]'",
    ]
