"""Which way everything goes: what is wrong with the edges between nodes, and who feeds whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quiver.otel.pipeline.findings import Findings, guess
from quiver.otel.pipeline.plan import Node, Outlet

__all__ = ["check_graph", "outlets_of", "reachable_from"]

_PATHS_MAX = 10_000
"""Ways through a graph grow faster than its nodes."""


def check_graph(
    nodes: Mapping[str, Node], *, known: Collection[str], found: Findings, all_read: bool
) -> None:
    """Tell all that is wrong; what rests on nodes that could not be read is not told.

    ``known`` are the names of all nodes, read or not.
    """
    for node in nodes.values():
        for name in node.destinations:
            if name not in known:
                text = f"nodes.{node.name}: there is no node {name[:80]!r} to send to"
                found.refuse(text, hint=guess(name, known), line=node.line)
            elif name in nodes and nodes[name].role == "receiver":
                text = f"nodes.{node.name}: {name} is a receiver, which takes from outside"
                found.refuse(text, line=node.line)
        if node.role != "exporter" and not node.destinations and not node.is_store and all_read:
            text = f"nodes.{node.name}: it sends to nobody"
            found.refuse(text, hint="out_ports: out_port: destinations: [NAME]", line=node.line)
    if not any(node.role == "receiver" for node in nodes.values()) and all_read:
        found.refuse("there is no receiver among the nodes")
    circle = _circle(nodes)
    if circle:
        text = f"nodes.{circle[0]}: a circle: {' -> '.join(circle)}"
        found.refuse(text, line=nodes[circle[0]].line)
    elif all_read:
        _check_reach(nodes, found)
        _check_stores(nodes, found)


def _check_reach(nodes: Mapping[str, Node], found: Findings) -> None:
    reached: set[str] = set()
    for node in nodes.values():
        if node.role == "receiver":
            reached |= {node.name} | reachable_from(node.name, nodes)
    for name in nodes.keys() - reached if reached else ():
        text = f"nodes.{name}: no receiver leads to it"
        found.refuse(
            text, hint="name it among destinations, or take it away", line=nodes[name].line
        )


def _check_stores(nodes: Mapping[str, Node], found: Findings) -> None:
    fed: dict[str, str] = {}
    for node in nodes.values():
        if not node.is_store:
            continue
        behind = reachable_from(node.name, nodes)
        for name in sorted(behind):
            if nodes[name].is_store:
                text = f"nodes.{name}: it stands behind {node.name}, which keeps everything already"
                found.refuse(text, line=nodes[name].line)
        ways = [outlet.exporter for outlet in _ways(node.name, nodes)]
        for name in sorted({name for name in ways if ways.count(name) > 1}):
            text = f"nodes.{name}: more than one way leads to it from {node.name}"
            hint = "give each way an exporter of its own: acks are by exporter"
            found.refuse(text, hint=hint, line=nodes[name].line)
        for name in sorted(set(ways)):
            if name in fed:
                text = f"nodes.{name}: it stands behind {fed[name]} and {node.name}"
                hint = "give each store an exporter of its own"
                found.refuse(text, hint=hint, line=nodes[name].line)
            fed.setdefault(name, node.name)
    direct = _straight(nodes)
    for name in sorted(fed.keys() & direct):
        text = f"nodes.{name}: it stands behind {fed[name]}, and is sent to past it as well"
        found.refuse(text, hint="give each way an exporter of its own", line=nodes[name].line)


def _straight(nodes: Mapping[str, Node]) -> set[str]:
    """Give the nodes that are reached from receivers without passing a store."""
    seen: set[str] = set()
    waiting = [node.name for node in nodes.values() if node.role == "receiver"]
    while waiting:
        for name in nodes[waiting.pop()].destinations:
            if name in nodes and name not in seen and not nodes[name].is_store:
                seen.add(name)
                waiting.append(name)
    return seen


def reachable_from(name: str, nodes: Mapping[str, Node]) -> set[str]:
    """Give all nodes behind one."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        for each in nodes[waiting.pop()].destinations:
            if each in nodes and each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


def _circle(nodes: Mapping[str, Node]) -> list[str]:
    """Find a circle, as the names on the way round; empty if there is none."""
    done: set[str] = set()
    for first in nodes:
        way: list[str] = []
        on_way: set[str] = set()
        steps = [(first, True)]
        while steps:
            name, is_entry = steps.pop()
            if not is_entry:
                on_way.discard(way.pop())
                done.add(name)
                continue
            if name in on_way:
                return [*way[way.index(name) :], name]
            if name in done or name not in nodes:
                continue
            way.append(name)
            on_way.add(name)
            steps.append((name, False))
            steps += [(each, True) for each in reversed(nodes[name].destinations)]
    return []


def outlets_of(nodes: Mapping[str, Node]) -> dict[str, tuple[Outlet, ...]]:
    """Say of each store whom it feeds; there must be no circle."""
    return {name: tuple(_ways(name, nodes)) for name, node in nodes.items() if node.is_store}


def _ways(name: str, nodes: Mapping[str, Node]) -> list[Outlet]:
    ways: list[Outlet] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(name, ())]
    while waiting and len(ways) < _PATHS_MAX:
        at, passed = waiting.pop()
        for each in nodes[at].destinations if at in nodes else ():
            if each not in nodes or nodes[each].is_store:
                continue
            if nodes[each].role == "exporter":
                ways.append(Outlet(each, passed))
            elif nodes[each].role == "processor" and each not in passed:
                waiting.append((each, (*passed, each)))
    return ways
