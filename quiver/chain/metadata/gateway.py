"""etcd's JSON gateway: each call a POST of its own, at the endpoint that answered last.

A call that no endpoint took can be made at the next one. A write that was sent and not answered may
have been done, and is not sent again here: the caller learns that it is unclear. Messages say what
etcd says, cut short, and never a password or a token.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from quiver.addresses import is_loopback
from quiver.errors import ConfigError, InputError, RemoteError
from quiver.ship.objects import UnclearError

__all__ = ["EtcdOptions", "Gateway"]

_ANSWER_BYTES_MAX: Final = 16 << 20
_WORDS: Final = 200
_UNPRINTABLE: Final = re.compile(r"[^ -~]+")
_OK: Final = 200
_UNAUTHENTICATED: Final = 16
_EXHAUSTED: Final = 8
_UNAVAILABLE: Final = 14
_UNCLEAR: Final = {1, 2, 4, 10, 13, _UNAVAILABLE}
"""Codes of gRPC for which the act may have been done: cancelled, unknown, out of time, aborted,
internal, unavailable."""
_TOO_LARGE: Final = "request is too large"
_OLD_TOKEN: Final = "invalid auth token"  # noqa: S105


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """How etcd is reached."""

    user: str = ""
    password: str = field(default="", repr=False)
    is_secure: bool = False
    """By TLS."""
    ca_file: str = ""
    """Who may have signed etcd's certificate; empty: whoever the system trusts."""
    cert_file: str = ""
    key_file: str = ""
    timeout: float = 2.0
    """Seconds without a byte after which an endpoint is taken for dead."""


class Gateway:
    """Calls etcd. Safe for many threads."""

    def __init__(self, endpoints: list[tuple[str, int]], options: EtcdOptions) -> None:
        """Take the endpoints; none is asked yet.

        Raises ConfigError for certificates, and for a password that would leave this machine
        without TLS.
        """
        if not endpoints:
            raise ConfigError("etcd has no endpoint", hint="as etcd://host:2379/path")
        far = [host for host, _ in endpoints if not is_loopback(host)]
        if far and (options.user or options.password) and not options.is_secure:
            raise ConfigError(
                f"a password would go to {far[0]} for everybody to read",
                hint="use etcds://, or reach etcd by an address of this machine",
            )
        self._endpoints = list(endpoints)
        self._options = options
        self._tls = _context(options)
        self._lock = threading.Lock()
        self._first = 0
        self._token = ""

    def read(self, path: str, request: Mapping[str, object]) -> dict[str, Any]:
        """Call what changes nothing: at each endpoint until one answers."""
        fault: Exception | None = None
        for _ in self._endpoints:
            try:
                return self._call(path, request)
            except UnclearError as error:
                fault = error
        raise fault or AssertionError("unreachable")

    def write(self, path: str, request: Mapping[str, object]) -> dict[str, Any]:
        """Call what changes something: never a second time once an endpoint has it."""
        return self._call(path, request)

    def _call(self, path: str, request: Mapping[str, object]) -> dict[str, Any]:
        """Make a call with a token if one is needed, and with a new one if that is too old."""
        is_new = False
        if self._options.user and not self._token:
            self._authenticate()
            is_new = True
        status, answer = self._post(path, request, self._token)
        if self._options.user and _is_refused_token(status, answer) and not is_new:
            self._authenticate()
            status, answer = self._post(path, request, self._token)
        if status != _OK:
            raise self._error(status, answer, path)
        return answer

    def _authenticate(self) -> None:
        asked = {"name": self._options.user, "password": self._options.password}
        status, answer = self._post("auth/authenticate", asked, "")
        token = answer.get("token")
        if status != _OK or not isinstance(token, str) or not token.isprintable():
            raise self._error(status, answer, "auth/authenticate")
        self._token = token

    def _post(
        self, path: str, request: Mapping[str, object], token: str
    ) -> tuple[int, dict[str, Any]]:
        """Give what the first endpoint that takes the call says."""
        body = json.dumps(request).encode()
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = token
        with self._lock:
            first = self._first
        reason = ""
        for step in range(len(self._endpoints)):
            number = (first + step) % len(self._endpoints)
            host, port = self._endpoints[number]
            with closing(self._connection(host, port)) as connection:
                try:
                    connection.connect()
                except OSError as error:
                    reason = f"{host}:{port}: {error.strerror or type(error).__name__}"
                    continue
                try:
                    connection.request("POST", f"/v3/{path}", body, headers)
                    response = connection.getresponse()
                    data = response.read(_ANSWER_BYTES_MAX + 1)
                except (OSError, http.client.HTTPException) as error:
                    self._use(number + 1)
                    raise self._unclear(path, f"{host}:{port}: {type(error).__name__}") from error
            status, answer = response.status, _decoded(data)
            if answer is None or (status != _OK and answer.get("code") == _UNAVAILABLE):
                self._use(number + 1)
                if answer is None:
                    raise self._unclear(path, f"{host}:{port}: status {status}, no JSON")
            else:
                self._use(number)
            return status, answer
        raise self._unclear(path, reason)

    def _connection(self, host: str, port: int) -> http.client.HTTPConnection:
        timeout = self._options.timeout
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _use(self, number: int) -> None:
        with self._lock:
            self._first = number % len(self._endpoints)

    def _unclear(self, path: str, reason: str) -> UnclearError:
        return UnclearError(f"no answer of etcd to {path}: {reason}", path=path, retryable=True)

    def _error(self, status: int, answer: Mapping[str, Any], path: str) -> Exception:
        said = self._said(answer)
        message = f"etcd refuses {path} with status {status}: {said}"
        code = answer.get("code")
        if _TOO_LARGE in said:
            return InputError(message, hint="--max-request-bytes of etcd says how much it takes")
        if code in _UNCLEAR or not isinstance(code, int):
            return UnclearError(message, path=path, retryable=True)
        hint = "its space is used up: compact, defragment, and disarm its alarm"
        exhausted = code == _EXHAUSTED
        return RemoteError(message, path=path, retryable=exhausted, hint=hint if exhausted else "")

    def _said(self, answer: Mapping[str, Any]) -> str:
        text = answer.get("message") or answer.get("error")
        text = _UNPRINTABLE.sub(" ", text) if isinstance(text, str) else "nothing"
        for secret in (self._options.password, self._token):
            text = text.replace(secret, "...") if secret else text
        return text[:_WORDS]


def _is_refused_token(status: int, answer: Mapping[str, Any]) -> bool:
    said = str(answer.get("message") or answer.get("error"))
    return status != _OK and (answer.get("code") == _UNAUTHENTICATED or _OLD_TOKEN in said)


def _decoded(data: bytes) -> dict[str, Any] | None:
    """Read an answer; None for what is none."""
    if len(data) > _ANSWER_BYTES_MAX:
        return None
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _context(options: EtcdOptions) -> ssl.SSLContext | None:
    if not options.is_secure:
        if options.ca_file or options.cert_file or options.key_file:
            raise ConfigError("certificates have no meaning without TLS", hint="use etcds://")
        return None
    try:
        context = ssl.create_default_context(cafile=options.ca_file or None)
        if options.cert_file:
            context.load_cert_chain(options.cert_file, options.key_file or None)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"a certificate of etcd cannot be used: {reason}") from error
    return context
