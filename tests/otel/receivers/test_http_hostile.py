"""What a stranger may do to a receiver of HTTP with a socket: nothing that hurts others."""

from __future__ import annotations

import gzip
import socket
import threading
from contextlib import ExitStack

import pytest
from receiver_kit import PATIENCE, Notebook, Served, logs_request, served

ONE = logs_request("one")
HEAD = b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def dial(here: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", here.port), timeout=PATIENCE)


def all_of(connection: socket.socket) -> bytes:
    """Read until the other side closes, in whatever way."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


def exchange(here: Served, *parts: bytes) -> bytes:
    with dial(here) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except ConnectionError:
            pass
        return all_of(connection)


def still_works(here: Served) -> None:
    whole = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(ONE), ONE)
    assert exchange(here, whole).startswith(b"HTTP/1.1 200 ")
    assert here.desk.gauges()["quiver.receiver.waiting_bytes"] == 0


SHORT = {"head_seconds": 0.2, "body_seconds": 0.2, "idle_seconds": 0.2}


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"PO",
        HEAD,
        HEAD + b"X: " + b"y" * 1000,
        HEAD + b"Content-Length: 100\r\n\r\n",
        HEAD + b"Content-Length: 100\r\n\r\n" + ONE,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        HEAD + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
    ],
)
def test_a_half_request_is_not_waited_for(notebook, half) -> None:
    with served("http", notebook, **SHORT) as here:
        answer = exchange(here, half)
        assert b" 200 " not in answer
        if b"\r\n\r\n" in half:
            assert b"HTTP/1.1 503 " in answer
            assert b"retry-after: 1\r\n" in answer.lower()
        still_works(here)
    assert notebook.texts() == ["one"]


def test_what_is_hidden_behind_an_end_that_others_see_elsewhere_is_no_request(notebook) -> None:
    hidden = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(ONE), ONE)
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with served("http", notebook) as here:
        answer = exchange(here, HEAD + both % (5 + len(hidden)) + hidden)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert notebook.texts() == []
        still_works(here)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_of_a_sender_who_goes_away_nothing_is_stored(notebook, framing, is_reset) -> None:
    with served("http", notebook) as here:
        with dial(here) as connection:
            connection.sendall(HEAD + framing + b"\r\n\r\n2\r\n\x0a\x00\r\n")
            if is_reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        still_works(here)
    assert notebook.texts() == ["one"]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # the start of TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/logs\r\n\r\n",
        b"POST /v1/logs HTTP/1.1\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        HEAD + b"Content-Length: 99999999999999999999999999\r\n\r\n",
        HEAD + b"Content-Length: 1x\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffffff\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
        HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        HEAD + b"X: y\r\n" * 50_000 + b"\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD + b"X: a\r\n b\x00c\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(notebook, request_) -> None:
    with served("http", notebook, **SHORT) as here:
        answer = exchange(here, request_)
        assert b" 200 " not in answer
        still_works(here)
        assert sum(here.refused().values()) >= 1
    assert notebook.texts() == ["one"]


def test_a_length_and_chunks_at_once_are_not_read_in_two_ways(notebook) -> None:
    smuggled = HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HEAD
    with served("http", notebook, **SHORT) as here:
        answer = exchange(here, smuggled + b"Content-Length: 0\r\n\r\n")
        assert answer.count(b"HTTP/1.1 ") <= 2
    assert notebook.taken == []


def test_a_body_that_is_said_to_be_huge_is_refused_before_it_comes(notebook) -> None:
    with served("http", notebook) as here, dial(here) as connection:
        connection.sendall(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_with_expect_nothing_is_asked_for_that_is_not_wanted(notebook) -> None:
    with served("http", notebook) as here, dial(here) as connection:
        head = HEAD.replace(b"x-protobuf", b"x-other")
        connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 415 ")


def test_who_sends_on_after_a_refusal_is_not_listened_to_for_ever(notebook, monkeypatch) -> None:
    monkeypatch.setattr("quiver.otel.receivers.http_connection._LINGER_SECONDS", 0.2)
    with served("http", notebook) as here, dial(here) as connection:
        connection.sendall(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        sent = 0
        with pytest.raises(ConnectionError):
            for _ in range(100_000):  # 6.5 GB at most
                sent += connection.send(bytes(65536))
        still_works(here)


def test_a_sender_byte_by_byte_has_only_so_long(notebook) -> None:
    over = threading.Event()
    with served("http", notebook, **SHORT) as here, dial(here) as connection:
        with pytest.raises(ConnectionError):
            for _ in range(10_000):
                connection.sendall(b"P")
                over.wait(0.01)
        still_works(here)


def test_requests_far_ahead_of_their_answers_are_not_kept(notebook) -> None:
    asked = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(ONE), ONE)
    with served("http", notebook) as here, dial(here) as connection:
        with pytest.raises(ConnectionError):
            for _ in range(500):  # 60 MB at most
                connection.sendall(asked * 1000)
        still_works(here)
    assert set(notebook.texts()) == {"one"}


def test_a_thousand_connections_are_not_kept(notebook) -> None:
    with served("http", notebook, connections=50) as here, ExitStack() as held:
        mine = [held.enter_context(dial(here)) for _ in range(200)]
        closed = 0
        for connection in mine[50:]:
            closed += all_of(connection) == b""
        assert closed == 150
        assert here.desk.gauges()["quiver.receiver.connections"] == 50
        assert here.desk.metrics.read()["quiver.receiver.refused_connections", ""] == 150
        mine[0].close()
        whole = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(ONE), ONE)
        mine[1].sendall(whole)
        assert mine[1].recv(65536).startswith(b"HTTP/1.1 200 ")


def test_many_requests_at_once_on_one_connection_are_answered_in_order(notebook) -> None:
    bodies = [logs_request(str(n)) for n in range(200)]
    whole = b"".join(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in bodies)
    last = HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    with served("http", notebook) as here:
        assert exchange(here, whole + last).count(b"HTTP/1.1 200 ") == 201
    assert notebook.texts() == [str(n) for n in range(200)]


def test_bombs_of_gzip_at_once_take_no_more_room_than_there_is(notebook) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    whole = HEAD + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    answers: list[bytes] = []
    with served("http", notebook, message_bytes="256KiB", requests=4) as here:
        senders = [
            threading.Thread(
                target=lambda: answers.append(exchange(here, whole % (len(bomb), bomb)))
            )
            for _ in range(16)
        ]
        for each in senders:
            each.start()
        for each in senders:
            each.join(PATIENCE)
        still_works(here)
    # A reset by who was not read to the end may overtake the answer: that is sent again, too.
    assert {answer[9:12] for answer in answers} <= {b"413", b"429", b""}
    assert len(answers) == 16
    assert notebook.texts() == ["one"]
