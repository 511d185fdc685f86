"""A small HTTP proxy of ours that spoils answers, as a script says."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

__all__ = ["Fault", "FaultProxy", "Seen"]

_PATIENCE: Final = 60.0
_OWN_HEADERS: Final = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Fault:
    """What happens to one request. It reaches the server unless ``reaches`` is False.

    ``status`` answers with that; ``cut`` gives the beginning of the true answer; ``held`` keeps it
    until that event; with none of them the connection ends without an answer.
    """

    reaches: bool = True
    status: int = 0
    cut: bool = False
    held: threading.Event | None = None


@dataclass(frozen=True)
class Seen:
    """A request that came by."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)


class FaultProxy:
    """Stands before a server on loopback; ``script`` is used up by requests that match, in order.

    ``for_ever`` holds once the script is used up.
    """

    def __init__(self, port: int) -> None:
        self.script: deque[Fault | None] = deque()
        self.for_ever: Fault | None = None
        self.matches: Callable[[Seen], bool] = lambda seen: seen.method == "PUT"
        self.seen: list[Seen] = []
        self._lock = threading.Lock()
        self._upstream = port
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, method: str) -> int:
        with self._lock:
            return sum(seen.method == method for seen in self.seen)

    def take(self, seen: Seen) -> Fault | None:
        """Say what happens to a request."""
        with self._lock:
            self.seen.append(seen)
            if not self.matches(seen):
                return None
            return self.script.popleft() if self.script else self.for_ever

    def forward(self, seen: Seen, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Ask the server; a connection each, so that nothing is tried twice behind our back."""
        connection = http.client.HTTPConnection("127.0.0.1", self._upstream, timeout=_PATIENCE)
        try:
            connection.putrequest(seen.method, seen.path, skip_host=True, skip_accept_encoding=True)
            for name, value in seen.headers.items():
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """Its threads end with their connections, which it ends when it is closed."""

    block_on_close = True
    daemon_threads = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for request in list(self._open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of our affair."""


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:  # noqa: C901
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # Else an answer waits for an acknowledgement, 40 ms.

        def _one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            seen = Seen(self.command, self.path, dict(self.headers.items()))
            fault = proxy.take(seen)
            if fault is None:
                self._answer(*proxy.forward(seen, body))
                return
            status, headers, answer = (0, [], b"")
            if fault.reaches:
                status, headers, answer = proxy.forward(seen, body)
            if fault.held is not None:
                fault.held.wait(_PATIENCE)
            if fault.status:
                self._answer(fault.status, [], b"")
            elif fault.cut:
                self._answer(status, headers, answer, cut=True)
                self.close_connection = True
            else:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _one  # noqa: N815

        def _answer(
            self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False
        ) -> None:
            self.send_response(status)
            length = len(body)
            for name, value in headers:
                if self.command == "HEAD" and name.lower() == "content-length":
                    length = int(value)
                if name.lower() not in _OWN_HEADERS:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
