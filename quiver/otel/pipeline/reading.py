"""A pipeline file, read strictly: a plan comes out, or all that is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from quiver.config_file import LoadedConfig, beside, examine_table
from quiver.config_keys import Table, shown
from quiver.config_text import TEXT_BYTES_MAX, parse_text
from quiver.disk import foreign_path, read_foreign
from quiver.errors import ConfigError, QuiverError
from quiver.otel.pipeline.findings import Findings, guess, line_of
from quiver.otel.pipeline.graph import check_graph, outlets_of
from quiver.otel.pipeline.kinds import ROLES, Kind, find_kind
from quiver.otel.pipeline.options import Option, address, duration, folder, read_options, size
from quiver.otel.pipeline.plan import BROADCAST, REQUEST_MEMORY, ROUND_ROBIN, Node, Plan
from quiver.otel.pipeline.remarks import check_memory, check_nodes
from quiver.otel.pipeline.template import fill_in
from quiver.units import SECOND

__all__ = ["examine_pipeline", "is_pipeline", "load_pipeline", "read_document"]

_NODES_MAX: Final = 1000
_TOP: Final = ("nodes", "service")
_NODE: Final = ("kind", "plugin_urn", "out_ports", "config")
_PORT: Final = ("destinations", "dispatch_strategy")
_STRATEGIES: Final = (BROADCAST, ROUND_ROBIN)
_SERVICE: Final = {
    "listening_addr": Option(address),
    "drain_timeout": Option(duration, 25 * SECOND),
    "request_memory": Option(size, REQUEST_MEMORY),
}
"""Kubernetes gives 30 seconds between SIGTERM and SIGKILL."""


def load_pipeline(
    path: str | os.PathLike[str],
    *,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """Read a pipeline file.

    ``variables`` are for names in braces, and so is ``environ``, which also has options of stores,
    as ``QUIVER_WAL__MAX_SIZE``. Raises ConfigError that says all that is wrong, with file and line.
    """
    plan, errors, _ = examine_pipeline(path, variables=variables, environ=environ)
    if len(errors) == 1:
        raise errors[0]
    if plan is None or errors:
        text = "".join(f"\n  {error}" for error in errors)
        raise ConfigError(f"{len(errors)} faults in the pipeline:{text}")
    return plan


def examine_pipeline(
    path: str | os.PathLike[str],
    *,
    variables: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Plan | None, list[ConfigError], tuple[str, ...]]:
    """Do the same, and give what is wrong instead of raising it, and what is worth telling."""
    try:
        place, document = read_document(path)
    except ConfigError as error:
        return None, [error], ()
    except QuiverError as error:
        return None, [ConfigError(error.message, hint=error.hint)], ()
    found = Findings(place)
    filled = fill_in(document, variables or {}, environ=environ or {}, found=found)
    plan = _Reader(place, environ or {}, found).read(filled)
    return (plan if not found.errors else None), found.errors, found.notes


def read_document(path: str | os.PathLike[str]) -> tuple[str, object]:
    """Read what a file says, whatever it is; gives its name too."""
    place = foreign_path(path)
    return place, parse_text(read_foreign(place, bytes_max=TEXT_BYTES_MAX), place)


def is_pipeline(document: object) -> bool:
    """Whether a document is of a whole pipeline, and not of a store alone."""
    if not isinstance(document, Mapping) or "nodes" not in document:
        return False
    nodes = document["nodes"]
    return not nodes or not isinstance(nodes, Mapping) or set(nodes) != {"persistence"}


class _Reader:
    def __init__(self, place: str, environ: Mapping[str, str], found: Findings) -> None:
        self._place, self._environ, self._found = place, environ, found
        self._told: set[str] = set()

    def read(self, document: Any) -> Plan | None:  # noqa: ANN401
        """Read all of it; None if it has no nodes at all."""
        found = self._found
        if not isinstance(document, Mapping) or not isinstance(document.get("nodes"), Mapping):
            text, hint = "there is no section nodes in it", "nodes: NAME: kind: receiver ..."
            given = document.get("nodes") if isinstance(document, Mapping) else None
            if given is not None:
                text = f"nodes: {shown(given)} is not a section of keys and values"
            found.refuse(text, hint=hint, line=line_of(document, "nodes") if given else 0)
            return None
        self._refuse_others(document, _TOP, key="")
        service = read_options(
            document.get("service"),
            _SERVICE,
            key="service",
            line=line_of(document, "service"),
            found=found,
        )
        tables = document["nodes"]
        if len(tables) > _NODES_MAX:
            found.refuse(f"more than {_NODES_MAX:,} nodes")
            return None
        nodes: dict[str, Node] = {}
        for name, table in tables.items():
            node = self._node(str(name), table, line_of(tables, name))
            if node is not None:
                nodes[node.name] = node
        all_read = len(nodes) == len(tables)
        check_graph(nodes, known=[str(name) for name in tables], found=found, all_read=all_read)
        check_nodes(nodes, service["listening_addr"], found=found)
        check_memory(nodes, service["request_memory"], found=found)
        if found.errors:
            return None
        return Plan(
            file=self._place,
            nodes=nodes,
            outlets=outlets_of(nodes),
            listening_addr=service["listening_addr"],
            drain_timeout_ns=service["drain_timeout"],
            request_memory=service["request_memory"],
            notes=found.notes,
        )

    def _node(self, name: str, table: Any, line: int) -> Node | None:  # noqa: ANN401
        found, key = self._found, f"nodes.{name}"
        if not isinstance(table, Mapping):
            found.refuse(f"{key}: {shown(table)} is not a section of keys and values", line=line)
            return None
        self._refuse_others(table, _NODE, key=key)
        kind = self._kind(table, key, line)
        destinations, strategy = self._ports(table, key, kind)
        if kind is None:
            return None
        config, at = table.get("config"), line_of(table, "config") or line
        store = None
        if kind.name == "persistence":
            config, store = self._store(config, key, at)
        options = read_options(config, kind.options, key=f"{key}.config", line=at, found=found)
        for option, known in kind.options.items():
            if known.read is folder and options[option] is not None:
                options[option] = beside(self._place, options[option])
        return Node(name, kind.role, kind.name, options, destinations, strategy, store, line)

    def _kind(self, table: Mapping[str, Any], key: str, line: int) -> Kind | None:
        found = self._found
        role, urn = table.get("kind"), table.get("plugin_urn")
        for option, value in (("kind", role), ("plugin_urn", urn)):
            if not isinstance(value, str):
                what = "is missing" if value is None else f"{shown(value)} is no text"
                found.refuse(f"{key}.{option}: {what}", line=line_of(table, option) or line)
                return None
        if role not in ROLES:
            text = f"{key}.kind: {shown(role)} is none of {', '.join(ROLES)}"
            found.refuse(text, hint=guess(str(role), ROLES), line=line_of(table, "kind"))
            return None
        try:
            return find_kind(str(role), str(urn))
        except ConfigError as error:
            text = f"{key}.plugin_urn: {error.message}"
            found.refuse(text, hint=error.hint, line=line_of(table, "plugin_urn"))
            return None

    def _ports(
        self, table: Mapping[str, Any], key: str, kind: Kind | None
    ) -> tuple[tuple[str, ...], str]:
        found, ports, line = self._found, table.get("out_ports"), line_of(table, "out_ports")
        if ports is None:
            return (), BROADCAST
        if kind is not None and kind.role == "exporter":
            text = f"{key}.out_ports: nothing comes out of an exporter"
            found.refuse(text, hint="take out_ports away", line=line)
            return (), BROADCAST
        if not isinstance(ports, Mapping) or len(ports) != 1:
            text = f"{key}.out_ports: there is one port, whatever its name"
            found.refuse(text, hint="out_ports: out_port: destinations: [NAME]", line=line)
            return (), BROADCAST
        ((name, port),) = ports.items()
        key, line = f"{key}.out_ports.{name}", line_of(ports, name) or line
        if not isinstance(port, Mapping):
            found.refuse(f"{key}: {shown(port)} is not a section of keys and values", line=line)
            return (), BROADCAST
        self._refuse_others(port, _PORT, key=key)
        strategy = port.get("dispatch_strategy", BROADCAST)
        at = line_of(port, "dispatch_strategy")
        if strategy not in _STRATEGIES:
            text = f"{key}.dispatch_strategy: {shown(strategy)} is none of {', '.join(_STRATEGIES)}"
            found.refuse(text, hint=guess(str(strategy), _STRATEGIES), line=at)
            strategy = BROADCAST
        return self._destinations(port, key, line), str(strategy)

    def _destinations(self, port: Mapping[str, Any], key: str, line: int) -> tuple[str, ...]:
        given, at = port.get("destinations"), line_of(port, "destinations") or line
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, list) or not given or not all(isinstance(n, str) for n in given):
            text = f"{key}.destinations: {shown(given)} is no list of nodes"
            self._found.refuse(text, line=at)
            return ()
        for name in sorted({name for name in given if given.count(name) > 1}):
            self._found.refuse(f"{key}.destinations: {name[:80]} is named twice", line=at)
        return tuple(dict.fromkeys(given))

    def _store(self, config: Any, key: str, line: int) -> tuple[Any, LoadedConfig | None]:  # noqa: ANN401
        """Part the options of a store from those of its node."""
        found = self._found
        if not isinstance(config, Mapping):
            what = "is missing" if config is None else f"{shown(config)} is no section"
            found.refuse(f"{key}.config: {what}", hint="config: path: FOLDER", line=line)
            return None, None
        own, rest = Table(), Table()
        for name, value in config.items():
            part = own if name in _OF_STORE_NODE else rest
            part[name] = value
            part.lines[str(name)] = line_of(config, name)
        loaded, errors = examine_table(rest, self._place, environ=self._environ)
        for error in errors:
            if str(error) not in self._told:  # The environment is the same for all stores.
                self._told.add(str(error))
                found.take(error, line=_line_in(error.message, self._place))
        if loaded is not None and loaded.path is None:
            found.refuse(
                f"{key}.config: path is missing", hint="the folder of the store", line=line
            )
        return own, loaded

    def _refuse_others(self, table: Mapping[str, Any], known: tuple[str, ...], *, key: str) -> None:
        for name in table:
            if name not in known:
                written = f"{key}.{str(name)[:80]}".lstrip(".")
                text, hint = f"{written}: there is no such key", guess(str(name), known)
                self._found.refuse(text, hint=hint, line=line_of(table, name))


_OF_STORE_NODE: Final = tuple(find_kind("processor", "urn:otap:processor:persistence").options)


def _line_in(message: str, place: str) -> int:
    """Give the line that a message names behind the file."""
    number = message.removeprefix(f"{place}:").partition(":")[0]
    return int(number) if message.startswith(f"{place}:") and number.isdecimal() else 0
