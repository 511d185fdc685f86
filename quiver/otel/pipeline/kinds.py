"""The kinds of nodes: how each is named in a file, and which options it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quiver.errors import ConfigError
from quiver.otel.pipeline.findings import guess
from quiver.otel.pipeline.options import (
    Option,
    Options,
    address,
    choice,
    count,
    duration,
    endpoint,
    flag,
    folder,
    headers,
    patience,
    secret,
    size,
    token,
)
from quiver.otel.pipeline.rules import read_actions, read_rules
from quiver.units import MILLISECOND, SECOND

__all__ = ["KINDS", "ROLES", "Kind", "find_kind"]

ROLES: Final = ("receiver", "processor", "exporter")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of node; its options are those of its ``config``."""

    role: str
    name: str
    options: Options


_MIB: Final = 1 << 20

_SERVER: Final[Options] = {
    "tls.cert_file": Option(folder),
    "tls.key_file": Option(folder),
    "tls.client_ca_file": Option(folder),
    "bearer_token": Option(token),
    "bearer_token_file": Option(folder),
    "insecure": Option(flag, default=False),
    "max_request_size": Option(size, 4 * _MIB),
    "max_concurrent_requests": Option(count(1, 10_000), 32),
    "max_connections": Option(count(1, 100_000), 256),
    "head_timeout": Option(patience, 10 * SECOND),
    "body_timeout": Option(patience, 30 * SECOND),
    "idle_timeout": Option(patience, 120 * SECOND),
    "retry_after": Option(patience, SECOND),
    "response_stream_channel_size": Option(count(1, 1 << 20), 256),
}
_CLIENT: Final[Options] = {
    "timeout": Option(patience, 10 * SECOND),
    "headers": Option(headers, ()),
    "bearer_token": Option(secret),
    "bearer_token_file": Option(folder),
    "tls.ca_file": Option(folder),
    "tls.cert_file": Option(folder),
    "tls.key_file": Option(folder),
}
_RETRY: Final[Options] = {
    "retry.initial_interval": Option(duration, SECOND),
    "retry.max_interval": Option(duration, 30 * SECOND),
}
_DELIVERY: Final[Options] = {**_RETRY, "max_in_flight": Option(count(1, 1_000), 8)}

KINDS: Final = (
    Kind(
        "receiver",
        "otlp",
        {
            "listening_addr": Option(address),
            "protocols.grpc.listening_addr": Option(address),
            "protocols.http.listening_addr": Option(address),
            **_SERVER,
        },
    ),
    Kind("receiver", "otap", {"listening_addr": Option(address, is_required=True), **_SERVER}),
    Kind(
        "processor",
        "persistence",
        {
            # The options of a store stand beside these.
            "otlp_handling": Option(choice("pass_through", "convert_to_arrow")),
            "wait_for_room": Option(duration, 100 * MILLISECOND),
        },
    ),
    Kind("processor", "attributes", {"actions": Option(read_actions, is_required=True)}),
    Kind("processor", "filter", {"drop": Option(read_rules), "keep": Option(read_rules)}),
    Kind(
        "exporter",
        "otlp",
        {
            "grpc_endpoint": Option(endpoint),
            "http_endpoint": Option(endpoint),
            "compression_method": Option(choice("none", "gzip", "zstd"), "none"),
            **_CLIENT,
            **_DELIVERY,
        },
    ),
    Kind(
        "exporter",
        "otap",
        {
            "grpc_endpoint": Option(endpoint, is_required=True),
            "compression_method": Option(choice("none", "gzip", "zstd"), "none"),
            "arrow.payload_compression": Option(choice("none", "lz4", "zstd"), "none"),
            **_CLIENT,
            **_DELIVERY,
        },
    ),
    Kind(
        "exporter",
        "parquet",
        {
            "path": Option(folder, is_required=True),
            "compression": Option(choice("none", "snappy", "lz4", "zstd"), "zstd"),
            "max_items": Option(count(1, 100_000_000), 200_000),
            "max_age": Option(duration, 60 * SECOND),
            **_RETRY,
        },
    ),
    Kind("exporter", "console", {"style": Option(choice("line", "json"), "line"), **_RETRY}),
)
"""All there are."""

_OTHER_NAMES: Final[Mapping[str, str]] = {
    "durable_buffer": "persistence",
    "attribute": "attributes",
    "attributes_processor": "attributes",
    "filter_processor": "filter",
    "debug": "console",
}


def find_kind(role: str, urn: str) -> Kind:
    """Find the kind that a node's ``plugin_urn`` names; ConfigError says which there are.

    Both orders are taken, ``urn:otel:otlp:receiver`` and ``urn:otap:processor:persistence``.
    """
    parts = urn.split(":")
    known = {kind.name: kind for kind in KINDS if kind.role == role}
    if len(parts) != 4 or parts[0] != "urn" or role not in parts[2:]:  # noqa: PLR2004
        hint = f"urn:otel:NAME:{role}, with NAME one of {', '.join(known)}"
        others = [each for each in ROLES if each in parts[2:]]
        text = f"{urn[:80]!r} names no {role}" + (f" but is of {others[0]}s" if others else "")
        raise ConfigError(text, hint=hint)
    name = parts[2] if parts[3] == role else parts[3]
    found = known.get(_OTHER_NAMES.get(name, name))
    if found is None:
        raise ConfigError(f"there is no {role} {name[:80]!r}", hint=guess(name, known))
    return found
