"""What nodes must have beside options that are right each, and what is worth telling of them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Final

from quiver.otel.pipeline.findings import Findings
from quiver.otel.pipeline.graph import reachable_from
from quiver.otel.pipeline.options import host_and_port
from quiver.otel.pipeline.plan import ROUND_ROBIN, Node

__all__ = ["addresses_of", "check_memory", "check_nodes"]

_SUBSCRIBER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What may be the name of a subscriber, which an exporter behind a store is."""
_NO_ZSTD: Final = "gRPC for Python has no zstd"
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104
_LOCAL: Final = ("localhost", "127.0.0.1", "::1", *_EVERYWHERE)


def check_nodes(nodes: Mapping[str, Node], own_address: str | None, *, found: Findings) -> None:
    """Tell what is wrong with nodes, alone and beside each other."""
    for node in nodes.values():
        if not _SUBSCRIBER.fullmatch(node.name):
            text = f"nodes.{node.name[:80]}: that is no name for a node"
            found.refuse(text, hint="letters, digits, dot, dash, underscore", line=node.line)
        _check_one(node, found)
        if node.is_store and node.strategy == ROUND_ROBIN and len(node.destinations) > 1:
            found.note(
                f"nodes.{node.name}: behind a store every destination gets everything, each at its "
                "own pace; round_robin changes nothing there",
                line=node.line,
            )
        if node.is_store and not node.destinations:
            text = f"nodes.{node.name}: nobody takes out what it keeps but scans and Spark"
            found.note(text, line=node.line)
    _check_addresses(nodes, own_address, found)
    _check_paths(nodes, found)
    _check_loops(nodes, found)


def check_memory(nodes: Mapping[str, Node], request_memory: int, *, found: Findings) -> None:
    """Refuse a receiver whose longest request has no room: as it came, and decompressed."""
    for node in nodes.values():
        longest = node.options.get("max_request_size", 0) if node.role == "receiver" else 0
        if 2 * longest > request_memory:
            text = f"nodes.{node.name}.config.max_request_size: two of {longest:,} bytes are more"
            text += f" than service.request_memory, {request_memory:,}"
            hint = "one as it came, one decompressed: raise request_memory, or lower this"
            found.refuse(text, hint=hint, line=node.line)


def _check_one(node: Node, found: Findings) -> None:
    options, key = node.options, f"nodes.{node.name}.config"
    if node.role == "receiver":
        _check_receiver(node, key, found)
    if node.role == "exporter":
        _check_exporter(node, key, found)
    _check_secrets(node, key, found)
    if options.get("bearer_token") and options.get("bearer_token_file"):
        text = f"{key}: bearer_token and bearer_token_file"
        found.refuse(text, hint="give one of them", line=node.line)
    if bool(options.get("tls.cert_file")) != bool(options.get("tls.key_file")):
        text = f"{key}.tls: a certificate and its key belong together"
        found.refuse(text, hint="give cert_file and key_file", line=node.line)
    if node.kind == "filter" and (options.get("drop") is None) == (options.get("keep") is None):
        text = f"{key}: it has rules for what to drop, or for what to keep"
        found.refuse(text, hint="give drop or keep", line=node.line)


def _check_secrets(node: Node, key: str, found: Findings) -> None:
    """Note files of secrets that are not here, which may be right where a file is only checked."""
    for name in ("bearer_token_file", "tls.key_file"):
        path = node.options.get(name)
        if not path:
            continue
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            text = f"{key}.{name}: {path} cannot be read here: {error.strerror}"
            found.note(text, line=node.line)
            continue
        if mode & stat.S_IROTH:
            text = f"{key}.{name}: everybody on this machine can read {path}: chmod o-r"
            found.note(text, line=node.line)


def _check_receiver(node: Node, key: str, found: Findings) -> None:
    options = node.options
    if not addresses_of(node):
        hint = "listening_addr, or protocols.grpc.listening_addr, protocols.http.listening_addr"
        found.refuse(f"{key}: listening_addr is missing", hint=hint, line=node.line)
    if options.get("listening_addr") and options.get("protocols.grpc.listening_addr"):
        text = f"{key}: listening_addr is that of gRPC, which protocols.grpc gives as well"
        found.refuse(text, hint="give one of them", line=node.line)
    if options.get("tls.client_ca_file") and not options.get("tls.cert_file"):
        text = f"{key}.tls.client_ca_file: without a certificate of its own nobody speaks TLS to it"
        found.refuse(text, hint="give cert_file and key_file", line=node.line)


def _check_exporter(node: Node, key: str, found: Findings) -> None:
    options = node.options
    if node.kind == "otlp":
        given = [name for name in ("grpc_endpoint", "http_endpoint") if options.get(name)]
        if len(given) > 1:
            text = f"{key}: grpc_endpoint and http_endpoint"
            found.refuse(text, hint="give one of them", line=node.line)
        if not given and not found.tells_of(f"{key}."):
            text = f"{key}: no endpoint"
            found.refuse(text, hint="give grpc_endpoint or http_endpoint", line=node.line)
    _, slash, path = (options.get("grpc_endpoint") or "").partition("://")[2].partition("/")
    if slash and path:
        text = f"{key}.grpc_endpoint: gRPC has no paths: /{path[:80]} is not used"
        found.note(text, line=node.line)
    if options.get("compression_method") == "zstd":
        who = "OTLP over HTTP knows gzip alone" if options.get("http_endpoint") else _NO_ZSTD
        found.note(f"{key}.compression_method: {who}: gzip is used instead", line=node.line)
    first, longest = options["retry.initial_interval"], options["retry.max_interval"]
    if not 0 < first <= longest:
        text = f"{key}.retry: initial_interval is above zero, and max_interval not below it"
        found.refuse(text, line=node.line)


def addresses_of(node: Node) -> dict[str, str]:
    """Give the addresses that a receiver listens on, by option."""
    names = ("listening_addr", "protocols.grpc.listening_addr", "protocols.http.listening_addr")
    return {name: node.options[name] for name in names if node.options.get(name)}


def _check_addresses(nodes: Mapping[str, Node], own_address: str | None, found: Findings) -> None:
    taken: list[tuple[str, int, str]] = []
    if own_address is not None:
        taken.append((*host_and_port(own_address), "service.listening_addr"))
    for node in nodes.values():
        for address in addresses_of(node).values() if node.role == "receiver" else ():
            host, port = host_and_port(address)
            for other_host, other_port, other in taken:
                meet = host == other_host or host in _EVERYWHERE or other_host in _EVERYWHERE
                if port and port == other_port and meet:
                    text = f"nodes.{node.name}: {address} is the address of {other} as well"
                    found.refuse(text, line=node.line)
            taken.append((host, port, node.name))


def _check_paths(nodes: Mapping[str, Node], found: Findings) -> None:
    seen: dict[str, str] = {}
    for node in nodes.values():
        if node.store is None or node.store.path is None:
            continue
        path = os.path.realpath(node.store.path)
        if path in seen:
            text = (
                f"nodes.{node.name}.config.path: {node.store.path} is that of {seen[path]} as well"
            )
            found.refuse(text, hint="each store has a folder of its own", line=node.line)
        seen.setdefault(path, node.name)


def _check_loops(nodes: Mapping[str, Node], found: Findings) -> None:
    """Note who sends to a receiver of this very pipeline."""
    listening: dict[int, Node] = {}
    for node in nodes.values():
        if node.role == "receiver":
            listening |= {host_and_port(each)[1]: node for each in addresses_of(node).values()}
    for node in nodes.values():
        url = node.options.get("grpc_endpoint") or node.options.get("http_endpoint")
        if node.role != "exporter" or not url:
            continue
        host, _, port = url.partition("://")[2].partition("/")[0].rpartition(":")
        receiver = listening.get(int(port)) if port.isdecimal() else None
        if receiver is None or host.strip("[]") not in _LOCAL:
            continue
        text = f"nodes.{node.name}: it sends to {receiver.name} of this pipeline"
        if receiver.kind == node.kind and node.name in reachable_from(receiver.name, nodes):
            text += ", so everything goes round without an end"
        elif receiver.kind != node.kind:
            text += f", which takes {receiver.kind} alone"
        found.note(text, line=node.line)
