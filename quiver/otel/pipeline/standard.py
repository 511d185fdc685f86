"""The receivers and exporters that there are, made of the options of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quiver.clock import Clock
from quiver.disk import LocalDisk
from quiver.otel.exporters import (
    ConsoleExporter,
    Endpoint,
    OtapGrpcExporter,
    OtlpGrpcExporter,
    OtlpHttpExporter,
    OtlpOptions,
    ParquetExporter,
)
from quiver.otel.exporters import Tls as ClientTls
from quiver.otel.nodes import Exporter, Intake
from quiver.otel.otlp import count, decode, encode, from_json, to_json
from quiver.otel.pipeline.codec import Codec
from quiver.otel.pipeline.options import host_and_port
from quiver.otel.pipeline.parts import Feed, Listening
from quiver.otel.pipeline.plan import REQUEST_MEMORY, Node
from quiver.otel.receivers import (
    Budget,
    Desk,
    Door,
    Limits,
    Page,
    Reading,
    Servers,
    Settings,
    Tls,
    Token,
    health_door,
    otap_over_grpc,
    otlp_over_grpc,
    otlp_over_http,
)
from quiver.otel.signals import Signal
from quiver.units import SECOND

__all__ = ["CODEC", "Pages", "StandardParts"]

CODEC: Final = Codec(decode=decode, encode=encode, count=count, from_json=from_json)
"""OTLP as ``quiver.otel.otlp`` reads and writes it."""


class StandardParts:
    """Makes the parts of one process of a pipeline; ``write`` is where a console exporter writes.

    With ``share_ports`` other processes may listen on the same ports. All requests that receivers
    have in memory are ``request_memory`` bytes at most.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        write: Callable[[str], object],
        share_ports: bool = False,
        request_memory: int = REQUEST_MEMORY,
    ) -> None:
        """Open nothing yet."""
        self.codec = CODEC
        self._clock, self._write = clock, write
        self._share_ports = share_ports
        self._budget = Budget(request_memory)
        self._servers: Servers | None = None

    def exporter(self, node: Node, feed: Feed) -> Exporter:
        """Make an exporter; it connects when there is something to send."""
        makers: dict[str, Callable[[Node, Feed], Exporter]] = {
            "otlp": self._otlp,
            "otap": self._otap,
            "parquet": self._parquet,
            "console": self._console,
        }
        return makers[node.kind](node, feed)

    def listen(self, node: Node, intake: Intake, *, wants_arrow: bool) -> Listening:
        """Open a receiver; raises InputError if it cannot listen there."""
        codec = self.codec
        reading = Reading(
            decode=codec.decode if wants_arrow else codec.kept,
            from_json=codec.from_json,
            is_light=not wants_arrow,
            joins=wants_arrow,
        )
        for signal in Signal:  # What reading needs is loaded before anybody waits for an answer.
            reading.decode(signal, b"")
        limits = _limits(node.options)
        desk = Desk(
            intake,
            reading,
            limits=limits,
            clock=self._clock,
            node=node.name,
            budget=self._budget,
        )
        doors = self._doors(node, desk, limits)
        if self._servers is None:
            self._servers = Servers()
        self._servers.open(*doors)
        return Listening([door.address for door in doors], desk.metrics, desk.gauges)

    def _doors(self, node: Node, desk: Desk, limits: Limits) -> list[Door]:
        options = node.options
        if node.kind == "otap":
            settings = self._settings(node, options["listening_addr"], limits)
            return [otap_over_grpc(desk, settings, in_work=options["response_stream_channel_size"])]
        doors = [
            otlp_over_grpc(desk, self._settings(node, options[name], limits))
            for name in ("listening_addr", "protocols.grpc.listening_addr")
            if options.get(name)
        ]
        http = options.get("protocols.http.listening_addr")
        if http:
            doors.append(otlp_over_http(desk, self._settings(node, http, limits)))
        return doors

    def _settings(self, node: Node, address: str, limits: Limits) -> Settings:
        options = node.options
        tls = None
        if options["tls.cert_file"]:
            tls = Tls(
                certificate=options["tls.cert_file"],
                key=options["tls.key_file"],
                client_ca=options["tls.client_ca_file"] or "",
            )
        token = None
        if options["bearer_token"]:
            token = Token(options["bearer_token"])
        elif options["bearer_token_file"]:
            token = Token.of_file(options["bearer_token_file"])
        return Settings(
            address=address,
            tls=tls,
            token=token,
            insecure=options["insecure"],
            reuse_port=self._share_ports,
            limits=limits,
        )

    def close(self, grace_seconds: float) -> None:
        """Close all receivers; behind this nobody calls their intakes any more."""
        if self._servers is not None:
            self._servers.close(grace_seconds)

    def _otlp(self, node: Node, _: Feed) -> Exporter:
        options = node.options
        http = options.get("http_endpoint")
        how = _client(node, http or options["grpc_endpoint"], port=4318 if http else 4317)
        if http:
            return OtlpHttpExporter(how, encode, clock=self._clock)
        return OtlpGrpcExporter(how, encode)

    def _otap(self, node: Node, _: Feed) -> Exporter:
        options = node.options
        return OtapGrpcExporter(
            _client(node, options["grpc_endpoint"], port=4317),
            self.codec.decoded,
            compression=options["arrow.payload_compression"],
        )

    def _parquet(self, node: Node, feed: Feed) -> Exporter:
        options = node.options
        return ParquetExporter(
            LocalDisk(options["path"], create=True),
            owner={"store": feed.store_id, "exporter": node.name},
            core=feed.core,
            clock=self._clock,
            to_arrow=self.codec.decoded,
            items=options["max_items"],
            seconds=options["max_age"] / SECOND,
            compression=options["compression"],
        )

    def _console(self, node: Node, _: Feed) -> Exporter:
        return ConsoleExporter(
            self._write, encode=encode, to_json=to_json, style=node.options["style"]
        )


def _limits(options: Mapping[str, Any]) -> Limits:
    return Limits(
        message_bytes=options["max_request_size"],
        requests=options["max_concurrent_requests"],
        connections=options["max_connections"],
        head_seconds=options["head_timeout"] / SECOND,
        body_seconds=options["body_timeout"] / SECOND,
        idle_seconds=options["idle_timeout"] / SECOND,
        retry_seconds=-(-options["retry_after"] // SECOND),
    )


def _client(node: Node, url: str, *, port: int) -> OtlpOptions:
    options = node.options
    compression = options["compression_method"]
    return OtlpOptions(
        endpoint=Endpoint.parse(url, port=port, key=f"nodes.{node.name}"),
        headers=_headers(options),
        token_file=options["bearer_token_file"] or "",
        compression="none" if compression == "none" else "gzip",
        timeout=options["timeout"],
        tls=ClientTls(
            ca_file=options["tls.ca_file"] or "",
            cert_file=options["tls.cert_file"] or "",
            key_file=options["tls.key_file"] or "",
        ),
        in_flight=options["max_in_flight"],
    )


def _headers(options: Mapping[str, Any]) -> dict[str, str]:
    headers = dict(options["headers"])
    if options["bearer_token"]:
        headers["authorization"] = f"Bearer {options['bearer_token']}"
    return headers


class Pages:
    """Health, and pages of other kinds, over HTTP, for as long as a pipeline runs."""

    def __init__(
        self, address: str, not_ready: Callable[[], str], pages: Mapping[str, Callable[[], Page]]
    ) -> None:
        """Listen; raises InputError if that is not possible there."""
        host, port = host_and_port(address)
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        door = health_door(not_ready, Settings(address=shown, insecure=True), pages=pages)
        self._servers = Servers()
        try:
            self._servers.open(door)
        except BaseException:
            self._servers.close(0.0)
            raise
        self.url = f"http://{door.address}"

    def close(self) -> None:
        """Answer nobody any more."""
        self._servers.close(1.0)
