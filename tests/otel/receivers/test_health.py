"""Pages that tell whether all is well, for who asks over HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
from receiver_kit import PATIENCE, TOKEN

from quiver.otel.receivers import Limits, Page, Servers, Settings, Token, health_door
from quiver.otel.receivers.health import HealthApplication
from quiver.otel.receivers.http_door import HttpDoor


@contextmanager
def page_of(door) -> Iterator[int]:
    with Servers() as servers:
        servers.open(door)
        yield int(door.address.rpartition(":")[2])


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


HERE = Settings(address="127.0.0.1:0")


def test_a_process_lives_and_is_ready_when_nothing_speaks_against_it() -> None:
    reasons = ["the store is being recovered", ""]
    with page_of(health_door(lambda: reasons[0], HERE)) as port:
        assert ask(port, "/healthz") == (200, b"ok\n")
        assert ask(port, "/readyz") == (503, b"the store is being recovered\n")
        reasons.pop(0)
        assert ask(port, "/readyz") == (200, b"ok\n")
        assert ask(port, "/readyz", "HEAD") == (200, b"")
        assert ask(port, "/readyz?verbose=1") == (200, b"ok\n")


def test_other_pages_are_there_too_and_ask_for_a_token() -> None:
    settings = Settings(address="127.0.0.1:0", token=Token(TOKEN))
    pages = {"/metrics": lambda: Page(200, b"a 1\n", "text/plain; version=0.0.4")}
    with page_of(health_door(str, settings, pages=pages)) as port:
        assert ask(port, "/metrics")[0] == 401
        assert ask(port, "/metrics", Authorization=f"Bearer {TOKEN}") == (200, b"a 1\n")
        assert ask(port, "/healthz")[0] == ask(port, "/readyz")[0] == 200


@pytest.mark.parametrize(
    "method, path, status", [("GET", "/", 404), ("POST", "/healthz", 405), ("DELETE", "/x", 404)]
)
def test_there_is_nothing_else(method, path, status) -> None:
    with page_of(health_door(str, HERE)) as port:
        assert ask(port, path, method)[0] == status


def test_an_error_of_a_page_is_told_without_what_it_says() -> None:
    def fails() -> Page:
        raise ValueError("a secret")

    def unknown() -> str:
        raise OSError("a secret")

    with page_of(health_door(unknown, HERE, pages={"/x": fails})) as port:
        assert ask(port, "/x") == (500, b"ValueError\n")
        assert ask(port, "/readyz") == (500, b"OSError\n")
        assert ask(port, "/healthz") == (200, b"ok\n")


def test_probes_of_other_machines_may_ask() -> None:
    health_door(str, Settings(address="0.0.0.0:0"))


def test_who_reads_no_answer_is_let_go() -> None:
    gone = threading.Event()

    class Noting(HealthApplication):
        def connected(self, count: int) -> None:
            if not count:
                gone.set()

    app = Noting(str, pages={"/large": lambda: Page(200, bytes(64 << 20))})
    settings = Settings(address="127.0.0.1:0", limits=Limits(idle_seconds=0.2))
    with (
        page_of(HttpDoor(app, settings)) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert gone.wait(PATIENCE)
