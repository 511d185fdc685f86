"""A connection of HTTP/1.1 that waits for nobody longer than it was told to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from quiver.extras import needed
from quiver.otel.receivers.settings import Limits
from quiver.units import parse_bytes

with needed("uvicorn", extra="otlp"):
    import h11
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

__all__ = ["Connections"]

_LINGER_SECONDS: Final = 5.0
"""How long the rest of a body is read and forgotten whose request was refused before its end."""
_AHEAD_BYTES_MAX: Final = 1 << 20
"""How much may come of further requests before the answer to one: nobody needs more than a few."""
_SILENT: Final = logging.Logger("uvicorn", logging.CRITICAL + 1)  # noqa: LOG001
"""Anybody who sends rubbish could fill a log: it is counted instead."""


class Connections:
    """Makes connections that lead to one application, and knows which there are."""

    def __init__(
        self, app: Callable[..., Any], limits: Limits, *, malformed: Callable[[], None]
    ) -> None:
        """``malformed`` is called for what is no HTTP."""
        self.state = ServerState()
        self.malformed = malformed
        idle_seconds = limits.seconds("idle_seconds")
        self.patience: Mapping[str, float] = {
            "head": limits.seconds("head_seconds"),
            "request": idle_seconds,
            "rest": _LINGER_SECONDS,
            "reader": idle_seconds,
        }
        self._config = Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=max(1, round(idle_seconds)),
            h11_max_incomplete_event_size=parse_bytes(limits.head_bytes, key="head_bytes"),
        )
        self._config.load()

    def make(self, gone: Callable[[], None]) -> asyncio.Protocol:
        """Make one for a socket that was accepted; ``gone`` is called when it has ended."""
        return _Connection(self._config, self, gone)

    def end_idle(self) -> None:
        """Close those on which nothing is asked; the others after their answer."""
        for connection in list(self.state.connections):
            connection.shutdown()

    def end_all(self) -> None:
        """Close what is left."""
        for connection in list(self.state.connections):
            if connection.transport is not None:
                cut(connection.transport)


def cut(transport: asyncio.BaseTransport) -> None:
    """Close a connection whatever is still to be sent; one that is gone may be cut again."""
    if not isinstance(transport, asyncio.WriteTransport):
        return
    # The TLS of Python 3.11.2 has no connection any more while its loss is still to be told.
    with suppress(AttributeError):
        transport.abort()


class _Connection(H11Protocol):
    """One of them, with one timer for whatever it waits for."""

    def __init__(self, config: Config, owner: Connections, gone: Callable[[], None]) -> None:
        super().__init__(config, owner.state, {})
        self.access_log = False
        self.logger = _SILENT
        self._owner, self._gone = owner, gone
        self._awaited = ""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for("head")

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        self._wait_for("")
        self.resume_writing()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._wait_for("")
        if self.flow.read_paused and len(self.conn.trailing_data[0]) > _AHEAD_BYTES_MAX:
            cut(self.transport)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def _look(self) -> None:
        """Find out what comes next on it, and begin to wait if that is something new."""
        ours, theirs = self.conn.our_state, self.conn.their_state
        if self.transport.is_closing():
            awaited = ""
        elif ours is h11.IDLE and theirs is h11.IDLE:
            awaited = "head" if self.conn.trailing_data[0] else "request"
        else:
            awaited = "rest" if ours is h11.DONE and theirs is h11.SEND_BODY else ""
        if awaited != self._awaited:
            self._wait_for(awaited)

    def _wait_for(self, awaited: str) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._awaited = awaited
        if awaited:
            seconds = self._owner.patience[awaited]
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            cut(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, unless an answer has begun."""
        self._owner.malformed()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            cut(self.transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            seconds = self._owner.patience["reader"]
            self._writing = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
        super().resume_writing()
