"""A server of gRPC, whatever services it has: who may call, TLS, limits, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from quiver.errors import InputError
from quiver.extras import needed
from quiver.otel.receivers.answers import status
from quiver.otel.receivers.desk import Desk
from quiver.otel.receivers.refusal import Reason, Refusal
from quiver.otel.receivers.renewing import Renewing
from quiver.otel.receivers.settings import Settings, Tls
from quiver.otel.receivers.tls import context_of
from quiver.units import parse_bytes

with needed("grpc", extra="otlp"):
    import grpc

if TYPE_CHECKING:
    import grpc.aio

__all__ = ["DEFAULT_ADDRESS", "GrpcDoor", "refuse", "refused"]

DEFAULT_ADDRESS: Final = "127.0.0.1:4317"
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS: Final = "grpc-status-details-bin"


class GrpcDoor:
    """Some services at one address, in front of one desk."""

    def __init__(
        self, desk: Desk, settings: Settings, *, services: Sequence[grpc.GenericRpcHandler]
    ) -> None:
        """Check the settings; raises ConfigError. Nothing listens yet."""
        settings.check()
        self._tls = None
        if (tls := settings.tls) is not None:
            self._tls = desk.watch.renewing("certificate", tls.paths, lambda: _certificates(tls))
        self._desk, self._settings = desk, settings
        self._services = tuple(services)
        self._server: grpc.aio.Server | None = None
        self._port = settings.port

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system picked."""
        return _joined(self._settings.host, self._port)

    async def open(self) -> None:
        """Listen; raises InputError if that is not possible there."""
        import grpc.aio

        server = grpc.aio.server(options=_options(self._settings))
        server.add_generic_rpc_handlers(tuple(map(self._guarded, self._services)))
        address = _joined(self._settings.host, self._settings.port)
        try:
            if self._tls is None or self._settings.tls is None:
                self._port = server.add_insecure_port(address)
            else:
                needs_client = bool(self._settings.tls.client_ca)
                credentials = _credentials(self._tls, needs_client=needs_client)
                self._port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise InputError(
                f"cannot listen on {address}", hint="another process may have it: name another"
            ) from error
        await server.start()
        self._server = server

    def _guarded(self, service: grpc.GenericRpcHandler) -> grpc.GenericRpcHandler:
        return _Guarded(service, self._desk, self._settings)

    def begin_closing(self) -> None:
        """Refuse what comes from now on."""
        self._desk.begin_closing()

    async def close(self, grace_seconds: float) -> None:
        """Listen no longer, answer what is in work, for at most so long, then close the desk."""
        self._desk.begin_closing()
        if self._server is not None:
            await self._server.stop(grace_seconds)
        await self._desk.close()


class _Guarded(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Looks for the token before anything is read, and knows nothing of what is behind it."""

    def __init__(self, service: grpc.GenericRpcHandler, desk: Desk, settings: Settings) -> None:
        self._service, self._desk, self._settings = service, desk, settings

    def service(self, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Give the handler of a call, None if there is none, or one that refuses it."""
        token = self._settings.token
        given = [
            value
            for name, value in handler_call_details.invocation_metadata
            if name == "authorization"
        ]
        if token is None or (len(given) == 1 and token.allows(_raw(given[0]))):
            return self._service.service(handler_call_details)
        return grpc.stream_stream_rpc_method_handler(self._refuse)

    async def _refuse(self, requests: object, context: Any) -> None:  # noqa: ANN401, ARG002
        refusal = Refusal(Reason.UNAUTHORIZED, "it brings no bearer token that is right")
        await refuse(context, self._desk.refuse(refusal), self._desk)


def refused(context: Any, refusal: Refusal, desk: Desk) -> bytes:  # noqa: ANN401
    """Give what a call with one answer returns that is refused: nothing, and a status with it.

    An abort would do the same and leave the request, and all there is of the call, in a circle of
    references, until Python's collector finds time for it: in an overload there are many.
    """
    details = status(refusal, desk.limits.retry_seconds)
    context.set_trailing_metadata(((_DETAILS, details),))
    context.set_code(_CODES[refusal.code])
    context.set_details(refusal.message)
    return b""


async def refuse(context: Any, refusal: Refusal, desk: Desk) -> NoReturn:  # noqa: ANN401
    """End a call with a refusal; raises what ``grpc.aio`` wants to see raised."""
    details = status(refusal, desk.limits.retry_seconds)
    context.set_trailing_metadata(((_DETAILS, details),))
    await context.abort(_CODES[refusal.code], refusal.message)
    raise AssertionError("a call went on after it was ended")


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "replace")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _certificates(tls: Tls) -> grpc.ServerCertificateConfiguration:
    context_of(tls)  # The core of gRPC says on stderr what is wrong, and not us.
    certificate, key, client_ca = tls.read()
    return grpc.ssl_server_certificate_configuration(
        [(key, certificate)], root_certificates=client_ca
    )


def _credentials(
    live: Renewing[grpc.ServerCertificateConfiguration], *, needs_client: bool
) -> grpc.ServerCredentials:
    """Have each handshake ask whether there is another certificate."""
    given = live.get()

    def another() -> grpc.ServerCertificateConfiguration | None:
        nonlocal given
        found = live.get()
        if found is given:
            return None
        given = found
        return found

    return grpc.dynamic_ssl_server_credentials(
        given, another, require_client_authentication=needs_client
    )


def _options(settings: Settings) -> list[tuple[str, int]]:
    """Say to the core of gRPC what it has to bound itself."""
    limits = settings.limits
    head_bytes = parse_bytes(limits.head_bytes, key="head_bytes")
    return [
        ("grpc.max_receive_message_length", limits.message_size),
        ("grpc.max_concurrent_streams", max(100, 2 * limits.requests)),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_metadata_size", head_bytes),
        ("grpc.absolute_max_metadata_size", head_bytes),
        ("grpc.server_handshake_timeout_ms", int(limits.seconds("head_seconds") * 1000)),
        ("grpc.max_connection_idle_ms", int(limits.seconds("idle_seconds") * 1000)),
        ("grpc.so_reuseport", int(settings.reuse_port)),
    ]
