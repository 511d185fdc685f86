"""OTLP over HTTP: three paths that take POST, as protobuf or JSON, in gzip or plain."""

from __future__ import annotations

import asyncio
from typing import Final

from quiver.otel.receivers.answers import response, response_json, status, status_json
from quiver.otel.receivers.desk import Answer, Desk
from quiver.otel.receivers.http_answers import (
    Page,
    Receive,
    Scope,
    Send,
    header,
    headers_of,
    send_page,
)
from quiver.otel.receivers.inflate import inflate
from quiver.otel.receivers.refusal import Reason, Refusal
from quiver.otel.receivers.room import Ticket
from quiver.otel.receivers.settings import Token
from quiver.otel.signals import Signal
from quiver.units import parse_bytes

__all__ = ["OtlpApplication"]

_PATHS: Final = {f"/v1/{signal}": signal for signal in Signal}
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_ENCODINGS: Final = {"", "identity", "gzip"}
_ALLOW: Final = {"allow": "POST"}
_METHOD_NOT_ALLOWED: Final = 405


class _Gone(Exception):
    """The sender went away before its request was whole: nobody waits for an answer."""


class OtlpApplication:
    """Takes exports of all three signals to a desk."""

    def __init__(self, desk: Desk, token: Token | None = None) -> None:
        self._desk, self._token = desk, token
        self._head_bytes = parse_bytes(desk.limits.head_bytes, key="head_bytes")
        self.connected, self.turned_off = desk.connected, desk.turned_off
        self.malformed = desk.malformed
        self.begin_closing, self.close = desk.begin_closing, desk.close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_json = _content_type(scope) == _JSON
        refusal = self._look_at_head(scope)
        if refusal is not None:
            await send_page(send, self._refused(scope, self._desk.refuse(refusal)))
            return
        signal = _PATHS[scope["path"]]
        try:
            answer = await self._answer(scope, receive, signal)
        except _Gone:
            return
        if isinstance(answer, Refusal):
            page = self._refused(scope, answer)
        elif is_json:
            page = Page(200, response_json(signal, answer), _JSON)
        else:
            page = Page(200, response(answer), _PROTOBUF)
        await send_page(send, page)

    def _look_at_head(self, scope: Scope) -> Refusal | None:
        """Say why a request is refused of which no more than its head was read."""
        if _is_ambiguous(scope):
            text = "it has both a Content-Length and a Transfer-Encoding"
            return Refusal(Reason.MALFORMED, text)
        given = headers_of(scope, b"authorization")
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if size + len(scope["raw_path"]) > self._head_bytes:
            return Refusal(Reason.TOO_LARGE, f"its head is larger than {self._head_bytes:,} bytes")
        if self._token and not (len(given) == 1 and self._token.allows(given[0])):
            return Refusal(Reason.UNAUTHORIZED, "it brings no bearer token that is right")
        if scope["path"] not in _PATHS:
            return Refusal(Reason.NOT_FOUND, f"there are {', '.join(_PATHS)}")
        if scope["method"] != "POST":
            return Refusal(Reason.UNSUPPORTED, "only POST is answered")
        if _content_type(scope) not in {_PROTOBUF, _JSON}:
            return Refusal(Reason.UNSUPPORTED, f"the content is {_PROTOBUF} or {_JSON}")
        if len(headers_of(scope, b"content-encoding")) > 1 or _encoding(scope) not in _ENCODINGS:
            return Refusal(Reason.UNSUPPORTED, "the content is in gzip, or plain")
        if int(header(scope, b"content-length") or 0) > self._desk.limits.message_size:
            return self._too_large()
        return self._desk.turned_away()

    def _too_large(self) -> Refusal:
        size = self._desk.limits.message_size
        return Refusal(Reason.TOO_LARGE, f"the body is larger than {size:,} bytes")

    async def _answer(self, scope: Scope, receive: Receive, signal: Signal) -> Answer:
        desk = self._desk
        ticket = desk.ticket()
        is_handed_over = False
        try:
            async with asyncio.timeout(desk.limits.seconds("body_seconds")):
                body = await self._read(receive, ticket)
            if isinstance(body, Refusal):
                return desk.refuse(body)
            is_gzip, is_json = _encoding(scope) == "gzip", _content_type(scope) == _JSON
            if is_gzip and not ticket.claim(desk.limits.message_size):
                return desk.refuse(desk.busy())
            is_handed_over = True
        except TimeoutError:
            return desk.refuse(Refusal(Reason.SLOW, "the body did not come in time"))
        finally:
            if not is_handed_over:
                ticket.leave()

        def unpacked() -> bytes:
            plain = inflate(body, desk.limits.message_size) if is_gzip else body
            return desk.from_json(signal, plain) if is_json else plain

        plain_bytes = None if is_gzip or is_json else len(body)
        return await desk.work(signal, ticket, unpacked, plain_bytes=plain_bytes)

    async def _read(self, receive: Receive, ticket: Ticket) -> bytes | Refusal:
        """Read a body piece by piece, as far as there is room for it."""
        parts: list[bytes] = []
        size, is_more = 0, True
        while is_more:
            message = await receive()
            if message["type"] != "http.request":
                raise _Gone
            part = message["body"]
            size += len(part)
            if size > self._desk.limits.message_size:
                return self._too_large()
            if not ticket.claim(len(part)):
                return self._desk.busy()
            parts.append(part)
            is_more = message["more_body"]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _refused(self, scope: Scope, refusal: Refusal) -> Page:
        """Say it in the encoding that the request has."""
        seconds = self._desk.limits.retry_seconds
        headers: dict[str, str] = {}
        if refusal.is_retryable:
            headers["retry-after"] = str(seconds)
        if refusal.reason is Reason.SLOW or _is_ambiguous(scope):
            headers["connection"] = "close"
        if refusal.reason is Reason.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        code = refusal.http_status
        if refusal.reason is Reason.UNSUPPORTED and scope["method"] != "POST":
            code = _METHOD_NOT_ALLOWED
            headers |= _ALLOW
        if _content_type(scope) == _JSON:
            return Page(code, status_json(refusal, seconds), _JSON, headers)
        return Page(code, status(refusal, seconds), _PROTOBUF, headers)


def _content_type(scope: Scope) -> str:
    return header(scope, b"content-type").partition(";")[0].strip()


def _is_ambiguous(scope: Scope) -> bool:
    """Whether somebody in between may see another end of this request than we do."""
    names = {name for name, _ in scope["headers"]}
    return {b"content-length", b"transfer-encoding"} <= names


def _encoding(scope: Scope) -> str:
    return header(scope, b"content-encoding")
