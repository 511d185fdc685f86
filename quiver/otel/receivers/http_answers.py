"""Pieces of HTTP that all our applications share: headers read, answers sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = ["Page", "Receive", "Scope", "Send", "header", "headers_of", "send_page"]

Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]

_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Page:
    """A whole answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=lambda: _NONE)


def headers_of(scope: Scope, name: bytes) -> Sequence[bytes]:
    """Give each value of a header, in order."""
    return [value for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str:
    """Give the one value of a header, in lower case; empty if it is not there, or not once."""
    values = headers_of(scope, name)
    return values[0].decode("latin-1").strip().lower() if len(values) == 1 else ""


async def send_page(send: Send, page: Page) -> None:
    """Send a whole answer."""
    headers = [
        (b"content-type", page.content_type.encode()),
        (b"content-length", str(len(page.body)).encode()),
        *((name.encode(), value.encode()) for name, value in page.headers.items()),
    ]
    await send({"type": "http.response.start", "status": page.status, "headers": headers})
    await send({"type": "http.response.body", "body": page.body})
