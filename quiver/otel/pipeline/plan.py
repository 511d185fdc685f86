"""A pipeline as values: its nodes, and which way everything goes. Nothing in here runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quiver.config_file import LoadedConfig

__all__ = ["BROADCAST", "REQUEST_MEMORY", "ROUND_ROBIN", "Node", "Outlet", "Plan"]

BROADCAST: Final = "broadcast"
ROUND_ROBIN: Final = "round_robin"
REQUEST_MEMORY: Final = 128 << 20
"""Bytes of requests in the memory of one process, unless the file says otherwise."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the file."""

    name: str
    role: str
    kind: str
    options: Mapping[str, Any] = field(repr=False)
    """All options of its kind by dotted name, read; some are secrets."""
    destinations: tuple[str, ...] = ()
    strategy: str = BROADCAST
    store: LoadedConfig | None = None
    """Of a persistence node, the options of its store."""
    line: int = 0

    @property
    def is_store(self) -> bool:
        """Whether it keeps what it is given."""
        return self.kind == "persistence"


@dataclass(frozen=True, slots=True)
class Outlet:
    """An exporter behind a store, and the processors on the way to it, in order."""

    exporter: str
    processors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All nodes by name, in the order of the file."""

    file: str
    nodes: Mapping[str, Node]
    outlets: Mapping[str, tuple[Outlet, ...]]
    """Who is fed out of each store, by the store's node."""
    listening_addr: str | None = None
    """Where health and metrics are."""
    drain_timeout_ns: int = 0
    request_memory: int = REQUEST_MEMORY
    notes: tuple[str, ...] = ()
    """What is right, and may surprise."""

    def of_role(self, role: str) -> tuple[Node, ...]:
        """Give the nodes of one role."""
        return tuple(node for node in self.nodes.values() if node.role == role)

    @property
    def stores(self) -> tuple[Node, ...]:
        """The persistence nodes."""
        return tuple(node for node in self.nodes.values() if node.is_store)
