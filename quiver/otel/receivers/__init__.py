"""What takes telemetry in: OTLP over gRPC and HTTP, and the page that tells whether all is well.

A ``Desk`` works on requests and hands them to an intake; doors of several protocols may lead to
one desk. ``Servers`` opens doors and closes them all at once. Needs ``quiver-store[otlp]``.

::

    desk = Desk(intake, Reading(decode=decode, from_json=from_json), limits=Limits(), clock=clock)
    with Servers() as servers:
        servers.open(otlp_over_grpc(desk, Settings(address="127.0.0.1:4317")))
"""

from __future__ import annotations

from quiver.otel.receivers.desk import Desk, Door, Reading
from quiver.otel.receivers.doors import (
    health_door,
    otap_over_grpc,
    otlp_over_grpc,
    otlp_over_http,
)
from quiver.otel.receivers.http_answers import Page
from quiver.otel.receivers.loop import Servers
from quiver.otel.receivers.room import Budget
from quiver.otel.receivers.settings import Limits, Settings, Tls, Token

__all__ = [
    "Budget",
    "Desk",
    "Door",
    "Limits",
    "Page",
    "Reading",
    "Servers",
    "Settings",
    "Tls",
    "Token",
    "health_door",
    "otap_over_grpc",
    "otlp_over_grpc",
    "otlp_over_http",
]
