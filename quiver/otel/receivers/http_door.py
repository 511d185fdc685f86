"""A server of HTTP, whatever application it has: TLS, limits of connections, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any, Final, Protocol

from quiver.errors import InputError
from quiver.otel.receivers.http_connection import Connections
from quiver.otel.receivers.renewing import Watch
from quiver.otel.receivers.settings import Settings
from quiver.otel.receivers.tls import context_of

__all__ = ["DEFAULT_ADDRESS", "Application", "HttpDoor"]

DEFAULT_ADDRESS: Final = "127.0.0.1:4318"
_BACKLOG: Final = 128
_EXHAUSTED_SECONDS: Final = 0.1
"""How long nothing is accepted when the process has no descriptor left."""


class Application(Protocol):
    """What answers requests, as ASGI has it, and hears of the door before it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        """Answer one request; raises nothing."""

    def connected(self, count: int) -> None:
        """Hear that so many connections are there now."""

    def turned_off(self) -> None:
        """Hear that a connection was closed at once."""

    def malformed(self) -> None:
        """Hear that what came was no HTTP."""

    def begin_closing(self) -> None:
        """Refuse what comes from now on."""

    async def close(self) -> None:
        """Hear that no door leads here any more."""


class HttpDoor:
    """One application at one address."""

    def __init__(self, app: Application, settings: Settings, *, watch: Watch | None = None) -> None:
        """Check the settings; raises ConfigError. Nothing listens yet."""
        settings.check()
        tls, watch = settings.tls, watch or Watch()
        self._app, self._settings = app, settings
        self._connections = Connections(app, settings.limits, malformed=app.malformed)
        self._tls = None
        if tls is not None:
            self._tls = watch.renewing("certificate", tls.paths, lambda: context_of(tls))
        self._listener: socket.socket | None = None
        self._beginning: set[asyncio.Task[None]] = set()
        self._open: set[object] = set()

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system picked."""
        host, port = self._settings.host, self._settings.port
        if self._listener is not None and self._listener.fileno() >= 0:
            port = self._listener.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def open(self) -> None:
        """Listen; raises InputError if that is not possible there."""
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        try:
            listener = socket.create_server(
                (settings.host, settings.port),
                family=family,
                backlog=_BACKLOG,
                reuse_port=settings.reuse_port,
            )
        except OSError as error:
            raise InputError(
                f"cannot listen on {settings.address}: {error.strerror or error}",
                hint="another process may have it: name another",
            ) from error
        listener.setblocking(False)
        self._listener = listener
        self._listen(listener)

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Take one connection; the next one is taken with the next turn of the loop."""
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # It was gone before we came, or another process was faster.
        except OSError:  # There is no descriptor left.
            loop.remove_reader(listener)
            loop.call_later(_EXHAUSTED_SECONDS, self._listen, listener)
            return
        if len(self._open) >= self._settings.limits.connections:
            self._app.turned_off()
            accepted.close()
            return
        place = object()
        self._open.add(place)
        self._app.connected(len(self._open))
        beginning = loop.create_task(self._begin(accepted, place))
        self._beginning.add(beginning)
        beginning.add_done_callback(partial(self._begun, accepted, place))

    async def _begin(self, accepted: socket.socket, place: object) -> None:
        """Make a connection of it, with TLS if that is to be."""
        seconds = self._settings.limits.seconds("head_seconds")
        accepted.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._connections.make(lambda: self._gone(place)),
            accepted,
            ssl=None if self._tls is None else self._tls.get(),
            ssl_handshake_timeout=None if self._tls is None else seconds,
        )

    def _begun(self, accepted: socket.socket, place: object, task: asyncio.Task[None]) -> None:
        """Forget it if nothing came of it, also if that was because everything ends."""
        self._beginning.discard(task)
        if not task.cancelled() and task.exception() is None:
            return
        if not task.cancelled():
            self._app.turned_off()
        accepted.close()
        self._gone(place)

    def _gone(self, place: object) -> None:
        """Forget a connection; more than one may say so."""
        self._open.discard(place)
        self._app.connected(len(self._open))

    def begin_closing(self) -> None:
        """Refuse what comes from now on."""
        self._app.begin_closing()

    async def close(self, grace_seconds: float) -> None:
        """Listen no longer, answer what is in work, for at most so long, then end."""
        self._app.begin_closing()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        beginning = set(self._beginning)
        for task in beginning:
            task.cancel()
        await asyncio.gather(*beginning, return_exceptions=True)
        self._connections.end_idle()
        if tasks := self._connections.state.tasks:
            await asyncio.wait(set(tasks), timeout=grace_seconds)
        self._connections.end_all()
        await self._app.close()
