"""``/healthz`` and ``/readyz``, and whatever else somebody wants to look at over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from quiver.otel.receivers.http_answers import Page, Receive, Scope, Send, headers_of, send_page
from quiver.otel.receivers.settings import Token

__all__ = ["DEFAULT_ADDRESS", "HealthApplication"]

DEFAULT_ADDRESS: Final = "127.0.0.1:13133"
"""The port that the health check of OpenTelemetry's collector has."""
_METHODS: Final = {"GET", "HEAD"}


class HealthApplication:
    """Answers who asks whether this process lives, and whether it may be sent to.

    ``/healthz`` is answered with 200 as long as there is somebody to answer; ``/readyz`` with 503
    if there is a reason why not, and while everything ends. More pages are made by functions, each
    in a thread, one at a time. A token is asked for on those pages alone: probes bring none.
    """

    def __init__(
        self,
        not_ready: Callable[[], str],
        *,
        pages: Mapping[str, Callable[[], Page]] | None = None,
        token: Token | None = None,
    ) -> None:
        """``not_ready`` says why nothing can be sent here now; empty if it can."""
        self._not_ready = not_ready
        self._pages = {**(pages or {}), "/readyz": self._ready}
        self._token = token
        self._turn = asyncio.Lock()
        self._is_closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer one request."""
        await send_page(send, await self._page(scope))

    async def _page(self, scope: Scope) -> Page:
        path = scope["path"]
        if path != "/healthz" and path not in self._pages:
            return Page(404, b"there is no such page\n")
        if scope["method"] not in _METHODS:
            return Page(405, b"only GET and HEAD are answered\n", headers={"allow": "GET, HEAD"})
        if path == "/healthz":
            return Page(200, b"ok\n")
        given = headers_of(scope, b"authorization")
        is_known = self._token is None or (len(given) == 1 and self._token.allows(given[0]))
        if path != "/readyz" and not is_known:
            return Page(401, b"it needs a token\n", headers={"www-authenticate": "Bearer"})
        try:
            if path == "/readyz":
                return await asyncio.to_thread(self._ready)
            async with self._turn:
                return await asyncio.to_thread(self._pages[path])
        except Exception as error:  # noqa: BLE001 - whoever asks is told that there was one
            return Page(500, f"{type(error).__name__}\n".encode())

    def _ready(self) -> Page:
        reason = "it is about to end" if self._is_closing else self._not_ready()
        return Page(503, f"{reason}\n".encode()) if reason else Page(200, b"ok\n")

    def connected(self, count: int) -> None:
        """Nobody wants to know."""

    def turned_off(self) -> None:
        """Nobody wants to know."""

    def malformed(self) -> None:
        """Nobody wants to know."""

    def begin_closing(self) -> None:
        """Say from now on that nothing can be sent here."""
        self._is_closing = True

    async def close(self) -> None:
        """Nothing is left to do."""
