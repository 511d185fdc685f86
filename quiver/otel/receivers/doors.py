"""Makes doors; each loads its library only then, and they are opened by ``Servers``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from quiver.otel.otap import StreamLimits
from quiver.otel.receivers.desk import Desk, Door
from quiver.otel.receivers.http_answers import Page
from quiver.otel.receivers.renewing import LiveToken, Watch
from quiver.otel.receivers.settings import Settings

__all__ = ["health_door", "otap_over_grpc", "otlp_over_grpc", "otlp_over_http"]


def otlp_over_grpc(desk: Desk, settings: Settings) -> Door:
    """Take OTLP over gRPC."""
    from quiver.otel.receivers.grpc_door import GrpcDoor
    from quiver.otel.receivers.otlp_grpc import OtlpService

    return GrpcDoor(desk, _ready(desk, settings), services=[OtlpService(desk)])


def otap_over_grpc(
    desk: Desk, settings: Settings, *, in_work: int = 256, limits: StreamLimits | None = None
) -> Door:
    """Take OTAP; so many batches of one stream are in work at once."""
    from quiver.otel.receivers.grpc_door import GrpcDoor
    from quiver.otel.receivers.otap_grpc import OtapService

    service = OtapService(desk, in_work=in_work, limits=limits)
    return GrpcDoor(desk, _ready(desk, settings), services=[service])


def otlp_over_http(desk: Desk, settings: Settings) -> Door:
    """Take OTLP over HTTP."""
    from quiver.otel.receivers.http_door import HttpDoor
    from quiver.otel.receivers.otlp_http import OtlpApplication

    ready = _ready(desk, settings)
    return HttpDoor(OtlpApplication(desk, ready.token), ready, watch=desk.watch)


def _ready(desk: Desk, settings: Settings) -> Settings:
    """Say it loud if anybody may send, and have the token be that which its file has by then."""
    if settings.is_open and settings.insecure:
        desk.events.warning("receiver.exposed", address=settings.address)
        desk.events.tell()
    return _with_live_token(settings, desk.watch)


def _with_live_token(settings: Settings, watch: Watch) -> Settings:
    if settings.token is None or not settings.token.path:
        return settings
    return replace(settings, token=LiveToken(settings.token.path, watch))


def health_door(
    not_ready: Callable[[], str],
    settings: Settings,
    *,
    pages: Mapping[str, Callable[[], Page]] | None = None,
) -> Door:
    """Answer ``/healthz``, ``/readyz``, and ``pages`` by their paths.

    ``not_ready`` says why nothing can be sent here now; empty if it can. Probes come from other
    machines and bring nothing with them: the address may be any.
    """
    from quiver.otel.receivers.health import HealthApplication
    from quiver.otel.receivers.http_door import HttpDoor

    ready = _with_live_token(settings, Watch())
    app = HealthApplication(not_ready, pages=pages, token=ready.token)
    return HttpDoor(app, replace(ready, insecure=True))
