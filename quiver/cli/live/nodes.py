"""The nodes of a running pipeline, as its page ``/status`` tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quiver.errors import InputError

__all__ = ["NodeAsker", "NodeLook", "Nodes", "nodes_of"]

_SECONDS: Final = 1.0
_BYTES_MAX: Final = 8 << 20
_NODES_MAX: Final = 1000
_ITEMS: Final = {
    "receiver": ("quiver.receiver.items", "quiver.receiver.refused_requests"),
    "processor": ("quiver.processor.items", "quiver.processor.dropped_items"),
    "exporter": ("quiver.exporter.sent_items", "quiver.exporter.refused_items"),
}
"""What went on, and what did not, by role."""
_WAITING: Final = ("quiver.receiver.waiting_requests", "quiver.exporter.held_batches")


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One node: what it took or gave, what it refused or took out, what is in its hands."""

    name: str
    role: str
    plugin: str
    items: int = 0
    refused: int = 0
    retried: int = 0
    waiting: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class Nodes:
    """All of them, or why there are none to see."""

    nodes: tuple[NodeLook, ...] = ()
    problem: str | None = None


class NodeAsker:
    """Asks the page again and again; what goes wrong is in what it gives."""

    def __init__(self, url: str) -> None:
        """``url`` is that of ``quiver run --listen``; raises InputError if it is none."""
        from quiver.errors import ConfigError
        from quiver.otel.pipeline.options import endpoint

        try:
            self._url = endpoint(url if "://" in url else f"http://{url}", "--pipeline")
        except ConfigError as error:
            raise InputError(error.message, hint=error.hint) from error
        try:
            import urllib3
        except ModuleNotFoundError as error:
            raise InputError(
                "--pipeline needs the package 'urllib3'",
                hint="pip install 'quiver-store[otlp]'",
            ) from error
        self._pool = urllib3.PoolManager(retries=False, timeout=_SECONDS)

    def ask(self) -> Nodes:
        """Look once."""
        import urllib3

        where = f"{self._url.rstrip('/')}/status"
        try:
            answer = self._pool.request("GET", where, preload_content=False)
            try:
                data = answer.read(_BYTES_MAX)
            finally:
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            return Nodes(problem=f"{self._url} does not answer: {type(error).__name__}")
        if answer.status != 200:  # noqa: PLR2004
            return Nodes(problem=f"{self._url} answers {answer.status}")
        try:
            return Nodes(nodes_of(json.loads(data)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Nodes(problem=f"{self._url} is no pipeline")

    def close(self) -> None:
        """Ask no more."""
        self._pool.clear()


def nodes_of(found: Mapping[str, Any]) -> tuple[NodeLook, ...]:
    """Read what the page says; raises ValueError, TypeError, KeyError, AttributeError."""
    return tuple(_node(each) for each in found["nodes"][:_NODES_MAX])


def _node(found: Mapping[str, Any]) -> NodeLook:
    role = str(found["role"])
    counts, gauges = found["counts"], found["gauges"]
    taken, refused = _ITEMS.get(role, ("", ""))
    state = "blocked" if gauges.get("quiver.exporter.blocked") else ""
    return NodeLook(
        str(found["name"]),
        role,
        str(found["kind"]),
        _sum(counts, taken),
        _sum(counts, refused),
        _sum(counts, "quiver.exporter.retried_batches"),
        sum(int(gauges.get(name, 0)) for name in _WAITING),
        str(found["problem"]) or state,
    )


def _sum(counts: Mapping[str, Any], name: str) -> int:
    return sum(int(value) for key, value in counts.items() if key.partition("[")[0] == name)
