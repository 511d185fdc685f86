"""Prometheus itself: its tool checks rules and answers, and the server scrapes a store.

Needs the programs ``promtool`` and ``prometheus``, as Debian has them: apt-get install prometheus.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from store_kit import SLOTS, bundle

import quiver
from quiver.observe import Collector, Observer

ALERTS = Path(quiver.__file__).parent / "observe" / "alerts.yml"
SCRAPES_MAX = 60
PATIENCE = 60


def needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} here: apt-get install prometheus")
    return found


def promtool(*arguments: str, text: str = "") -> str:
    command = [needed("promtool"), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def store(tmp_path) -> Iterator[quiver.Store]:
    with quiver.open(tmp_path / "store", slots=SLOTS) as store:
        subscription = store.subscribe("reader")
        for number in range(3):
            store.append(bundle(number))
        store.finalize()
        subscription.poll().ack()
        yield store


def test_the_tool_finds_nothing_wrong_with_the_rules() -> None:
    assert f"{len(trouble())} rules found" in promtool("check", "rules", str(ALERTS))


@pytest.mark.parametrize("watched", ["store", "folder", "named"])
def test_the_tool_finds_nothing_wrong_with_what_is_answered(store, watched) -> None:
    registry = CollectorRegistry()
    if watched == "folder":
        with Observer(store.path, size_cap=1 << 30) as observer:
            registry.register(Collector(observer))
            text = generate_latest(registry).decode()
    else:
        registry.register(Collector(store if watched == "store" else {"orders": store}))
        text = generate_latest(registry).decode()
    assert "quiver_subscriber_lag_bundles" in text
    assert promtool("check", "metrics", text=text) == ""


def trouble() -> dict[str, dict[str, str]]:
    """Give for each alert series of two hours in which it must fire."""
    one = 'core="0",subscriber="reader"'
    rise, still = "0+1x120", "{}+0x120".format
    syncs = "quiver_wal_sync_seconds_bucket"
    return {
        "QuiverStopped": {'quiver_store_stopped{core="0"}': still(1)},
        "QuiverNearlyFull": {
            'quiver_disk_used_bytes{core="0",station="wal"}': still(50),
            'quiver_disk_used_bytes{core="0",station="segments"}': still(45),
            'quiver_disk_cap_bytes{core="0"}': still(100),
        },
        "QuiverThrottled": {'quiver_wal_throttled_appends_total{core="0"}': rise},
        "QuiverSizeEmergency": {
            'quiver_retention_size_emergencies_total{core="0",policy="backpressure"}': rise
        },
        "QuiverDropped": {f"quiver_subscriber_dropped_bundles_total{{{one}}}": rise},
        "QuiverSubscriberBehind": {
            f"quiver_subscriber_oldest_unacked_seconds{{{one}}}": still(4000),
            f"quiver_subscriber_paused{{{one}}}": still(0),
        },
        "QuiverSubscriberGone": {
            f"quiver_subscriber_unseen_seconds{{{one}}}": still(90_000),
            f"quiver_subscriber_lag_bundles{{{one}}}": still(1),
        },
        "QuiverDeadLetters": {f"quiver_subscriber_dead_letters_total{{{one}}}": rise},
        "QuiverFinalizeFails": {'quiver_segment_finalize_failures_total{core="0"}': rise},
        "QuiverOpenTooLong": {'quiver_segment_open_age_seconds{core="0"}': still(301)},
        "QuiverSlowSync": {
            f'{syncs}{{core="0",le="0.5"}}': still(0),
            f'{syncs}{{core="0",le="1.0"}}': "0+10x120",
            f'{syncs}{{core="0",le="+Inf"}}': "0+10x120",
        },
        "QuiverDamage": {'quiver_damage_total{core="0",kind="wal"}': still(1)},
        "QuiverExporterFails": {'quiver_exporter_retried_batches_total{node="out"}': rise},
        "QuiverExporterRefused": {
            'quiver_exporter_refused_items_total{node="out",signal="logs"}': rise
        },
        "QuiverReceiverRefuses": {
            'quiver_receiver_refused_requests_total{job="q",node="in",reason="full"}': rise
        },
    }


def peace() -> dict[str, str]:
    """Give series of the same metrics in which nothing may fire."""
    calm = {name: "7+0x120" for series in trouble().values() for name in series}
    for zero in ("stopped", "damage_total"):
        calm |= {name: "0+0x120" for name in calm if name.startswith(f"quiver_{zero}")}
    calm |= {name: "0+0x120" for name in calm if name.startswith("quiver_store_stopped")}
    one = 'core="0",subscriber="reader"'
    calm |= {
        'quiver_disk_cap_bytes{core="0"}': "1000+0x120",
        f"quiver_subscriber_oldest_unacked_seconds{{{one}}}": "4000+0x120",
        f"quiver_subscriber_paused{{{one}}}": "1+0x120",
        f"quiver_subscriber_unseen_seconds{{{one}}}": "90000+0x120",
        f"quiver_subscriber_lag_bundles{{{one}}}": "0+0x120",
        'quiver_wal_sync_seconds_bucket{core="0",le="0.5"}': "0+10x120",
        'quiver_wal_sync_seconds_bucket{core="0",le="1.0"}': "0+10x120",
        'quiver_wal_sync_seconds_bucket{core="0",le="+Inf"}': "0+10x120",
    }
    return calm


def rule_test(series: dict[str, str], firing: list[str]) -> dict[str, Any]:
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "110m",
                "exp_samples": samples,
            }
        ],
    }


def test_each_alert_fires_in_its_trouble_alone_and_none_in_peace(tmp_path) -> None:
    tests = [rule_test(series, [name]) for name, series in trouble().items()]
    tests.append(rule_test(peace(), []))
    page = tmp_path / "rules_test.yml"
    rules = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    page.write_text(yaml.safe_dump(rules))
    assert "SUCCESS" in promtool("test", "rules", str(page))


# the server ------------------------------------------------------------------------------------


class Scraped(Collector):
    """Tells of each scrape."""

    def __init__(self, store: quiver.Store) -> None:
        super().__init__(store)
        self.came = threading.Semaphore(0)

    def collect(self) -> Iterator[Any]:
        yield from super().collect()
        self.came.release()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Server:
    """A Prometheus on this machine, and what it answers."""

    def __init__(self, folder: Path, target: int) -> None:
        self.port = free_port()
        config = {
            "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [
                {"job_name": "quiver", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            needed("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=error",
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def number(self, query: str) -> float:
        (found,) = self.ask("query", query=query)["result"]
        return float(found["value"][1])

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


def test_a_prometheus_scrapes_a_store_and_evaluates_its_alerts(store, tmp_path) -> None:
    needed("prometheus")
    registry, collector = CollectorRegistry(), Scraped(store)
    registry.register(collector)
    endpoint, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    server = Server(tmp_path, endpoint.server_port)
    try:
        for _ in range(SCRAPES_MAX):
            assert collector.came.acquire(timeout=PATIENCE), server.process.poll()
            (group,) = server.ask("rules")["groups"]
            health = {rule["name"]: rule["health"] for rule in group["rules"]}
            scraped = server.ask("query", query="quiver_wal_next_seq")["result"]
            if scraped and set(health.values()) == {"ok"}:
                break
        assert set(health) == set(trouble())
        assert set(health.values()) == {"ok"}
        assert server.number("quiver_wal_appended_bundles_total") == 3
        assert server.number('quiver_subscriber_lag_bundles{subscriber="reader"}') == 2
        assert server.number("sum without (station) (quiver_disk_used_bytes)") > 0
        assert server.number("histogram_quantile(1, quiver_wal_sync_seconds_bucket)") > 0
        assert server.number("up") == 1
    finally:
        server.close()
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()
