"""``quiver run`` in a process of its own: a receiver, perhaps a store, and an exporter."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from run_child import RunChild

__all__ = ["Running", "running"]

_KIB: Final = 1024
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Running:
    """One that is ready."""

    def __init__(self, child: RunChild) -> None:
        self._pid = child.process.pid
        self.grpc, self.http = child.addresses("in")

    def address(self, protocol: str) -> str:
        """Where it listens."""
        return self.grpc if protocol == "gRPC" else self.http

    def cpu(self) -> float:
        """Give the seconds of processors that it has had."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self, name: str = "VmRSS") -> int:
        """Give its bytes of memory now; ``VmHWM`` for what it was at most."""
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * _KIB for line in lines if line.startswith(name))


@contextlib.contextmanager
def running(
    folder: Path,
    name: str,
    port: int,
    *,
    store: Mapping[str, Any] | None,
    service: Mapping[str, Any] | None = None,
    **receiver: Any,
) -> Iterator[Running]:
    """Run one that exports to a port, with a store of these options or with none."""
    first = "keep" if store is not None else "out"
    nodes: dict[str, Any] = {
        "in": {
            "kind": "receiver",
            "plugin_urn": "urn:otel:otlp:receiver",
            "out_ports": _to(first),
            "config": {
                "protocols.grpc.listening_addr": "127.0.0.1:0",
                "protocols.http.listening_addr": "127.0.0.1:0",
                **receiver,
            },
        },
        "out": {
            "kind": "exporter",
            "plugin_urn": "urn:otel:otlp:exporter",
            "config": {"grpc_endpoint": f"http://127.0.0.1:{port}"},
        },
    }
    if store is not None:
        nodes["keep"] = {
            "kind": "processor",
            "plugin_urn": "urn:otap:processor:persistence",
            "out_ports": _to("out"),
            "config": {"path": str(folder / name), **store},
        }
    file = folder / f"{name}.yaml"
    file.write_text(
        yaml.safe_dump({"service": dict(service or {}), "nodes": nodes}, sort_keys=False)
    )
    with RunChild(file) as child:
        child.wait_for("ready")
        yield Running(child)
        child.terminate()


def _to(node: str) -> dict[str, Any]:
    return {"out_port": {"destinations": [node], "dispatch_strategy": "round_robin"}}
