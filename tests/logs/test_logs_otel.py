"""What receivers of telemetry say."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest
from receiver_kit import PATIENCE, TOKEN, Notebook, logs_request, served

from quiver.clock import SystemClock
from quiver.errors import StorageError
from quiver.events import Events
from quiver.otel.receivers import Desk, Limits, Reading, Settings, Token, otlp_over_grpc
from quiver.otel.receivers.renewing import Watch
from quiver.testing import ManualClock


def post(port: int) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    kind = {"Content-Type": "application/x-protobuf"}
    connection.request("POST", "/v1/logs", logs_request("its text"), kind)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize(
    "event, error, told",
    [
        ("receiver.unavailable", StorageError("cannot write", path="x"), "cannot write"),
        ("receiver.failed", ValueError("its text"), "ValueError"),
    ],
)
def test_a_receiver_tells_once_that_it_cannot_store(heard, event, error, told) -> None:
    notebook = Notebook()
    with served("http", notebook) as here:
        for notebook.error, status in [(error, 503), (error, 503), (None, 200), (error, 503)]:
            assert post(here.port) == status
    assert heard.of(event) == [{"node": "receiver", "error": told}] * 2
    assert "its text" not in str(heard.records)


def test_a_receiver_that_anybody_reaches_says_so(heard) -> None:
    limits = Limits()
    desk = Desk(
        Notebook(),
        Reading(decode=lambda *_: [], from_json=lambda *_: b""),
        limits=limits,
        clock=SystemClock(),
        node="front",
    )
    for settings in (
        Settings(address="0.0.0.0:0", insecure=True, token=Token(TOKEN)),
        Settings(address="127.0.0.1:0", insecure=True),
    ):
        otlp_over_grpc(desk, settings)
    assert heard.of("receiver.exposed") == [{"node": "front", "address": "0.0.0.0:0"}]
    assert TOKEN not in str(heard.records)


def test_what_became_of_a_file_that_changed_is_said(heard, tmp_path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    path.write_text(TOKEN)
    live = Watch(clock, Events(node="front")).renewing(
        "token", [str(path)], lambda: Token.of_file(str(path))
    )
    for content in ("short", "shorter", f"{TOKEN}2", f"{TOKEN}2"):
        path.write_text(content)
        clock.step(2)
        assert live.get() is live.get()
    (failed,) = heard.of("receiver.renewal_failed")
    assert failed["what"] == "token"
    assert "cannot be used" in failed["error"]
    assert {"node": "front", "what": "token"} in heard.of("receiver.renewed")
    assert TOKEN not in str(heard.records)
