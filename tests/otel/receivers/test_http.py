"""OTLP over HTTP: what is answered to whom."""

from __future__ import annotations

import gzip
import json
from http.client import HTTPConnection

import pytest
from google.protobuf import json_format
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from receiver_kit import PATIENCE, TOKEN, Notebook, Served, empty_item, logs_request, served

from quiver.errors import (
    CapacityError,
    ClosedError,
    ConfigError,
    InputError,
    PoisonedError,
    StorageError,
)
from quiver.otel.nodes import Accepted
from quiver.otel.receivers import Token
from quiver.otel.signals import Signal

PROTOBUF, JSON = "application/x-protobuf", "application/json"
ONE = logs_request("one")
ONE_JSON = json.dumps(
    {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "one"}}]}]}]}
).encode()


class Answered:
    """An answer, read to its end."""

    def __init__(self, connection: HTTPConnection) -> None:
        response = connection.getresponse()
        self.status, self.body = response.status, response.read()
        self.headers = response.headers

    @property
    def told(self) -> Status:
        """Its body as a Status, in whichever encoding it has."""
        if self.headers["content-type"] == JSON:
            return json_format.Parse(self.body, Status())
        assert self.headers["content-type"] == PROTOBUF
        return Status.FromString(self.body)


def connect(to: Served) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", to.port, timeout=PATIENCE)


def post(
    to: Served | HTTPConnection, body: object, kind: str = PROTOBUF, path="/v1/logs", **headers: str
) -> Answered:
    connection = connect(to) if isinstance(to, Served) else to
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, body, {"Content-Type": kind, **names})
    answered = Answered(connection)
    if isinstance(to, Served):
        connection.close()
    return answered


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.mark.parametrize("signal", Signal)
def test_what_was_taken_is_answered_with_an_empty_response(notebook, signal) -> None:
    with served("http", notebook) as here:
        answered = post(here, empty_item(signal), path=f"/v1/{signal}")
    assert (answered.status, answered.body) == (200, b"")
    assert answered.headers["content-type"] == PROTOBUF
    assert notebook.taken == [(signal, empty_item(signal))]


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "Application/JSON"])
def test_json_is_answered_as_json(notebook, kind) -> None:
    with served("http", notebook) as here:
        answered = post(here, ONE_JSON, kind)
    assert (answered.status, json.loads(answered.body)) == (200, {})
    assert answered.headers["content-type"] == JSON
    assert notebook.taken == [(Signal.LOGS, ONE)]


@pytest.mark.parametrize("body, kind", [(ONE, PROTOBUF), (ONE_JSON, JSON)])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_gzip_is_read_in_one_piece_and_in_chunks(notebook, body, kind, is_chunked) -> None:
    packed = gzip.compress(body)
    pieces = iter([packed[:7], packed[7:]]) if is_chunked else packed
    with served("http", notebook) as here:
        answered = post(here, pieces, kind, Content_Encoding="gzip")
    assert answered.status == 200
    assert notebook.taken == [(Signal.LOGS, ONE)]


def test_gzip_of_several_members_is_one_body(notebook) -> None:
    packed = gzip.compress(ONE[:5]) + gzip.compress(ONE[5:])
    with served("http", notebook) as here:
        assert post(here, packed, Content_Encoding="GZIP").status == 200
    assert notebook.texts() == ["one"]


def test_a_connection_is_used_again_also_after_a_refusal(notebook) -> None:
    with served("http", notebook) as here:
        connection = connect(here)
        statuses = [post(connection, body).status for body in (ONE, b"\xff", ONE)]
        port = connection.sock.getsockname()[1]
        assert post(connection, ONE, "text/plain").status == 415
        assert post(connection, ONE).status == 200
        assert connection.sock.getsockname()[1] == port
        connection.close()
    assert statuses == [200, 400, 200]
    assert notebook.texts() == ["one"] * 3


def test_a_request_without_any_item_is_taken_and_nothing_is_stored(notebook) -> None:
    with served("http", notebook) as here:
        assert post(here, b"").status == 200
    assert notebook.taken == []


@pytest.mark.parametrize("body, kind", [(ONE, PROTOBUF), (ONE_JSON, JSON)])
@pytest.mark.parametrize(
    "error, status, code",
    [
        (CapacityError("store is full at /secret/path"), 429, 8),
        (StorageError("no disk", path="/secret/path"), 503, 14),
        (PoisonedError("a sync failed in /secret/path"), 503, 14),
        (ClosedError("it is closed"), 503, 14),
        (ConfigError("an option of ours is wrong"), 503, 14),
        (InputError("the bundle has too many rows"), 400, 3),
        (RuntimeError("/secret/path"), 503, 14),
        (MemoryError(), 503, 14),
    ],
)
def test_an_error_of_the_intake_is_told_in_the_encoding_of_the_request(
    notebook, body, kind, error, status, code
) -> None:
    notebook.error = error
    with served("http", notebook, retry_seconds=7) as here:
        answered = post(here, body, kind)
    assert (answered.status, answered.told.code) == (status, code)
    assert b"secret" not in answered.body
    is_retryable = status != 400
    assert answered.headers["retry-after"] == ("7" if is_retryable else None)
    if is_retryable:
        info = RetryInfo()
        assert answered.told.details[0].Unpack(info)
        assert info.retry_delay.seconds == 7
    assert notebook.taken == []


@pytest.mark.parametrize("body, kind", [(ONE, PROTOBUF), (ONE_JSON, JSON)])
def test_what_was_rejected_of_a_request_is_told_as_partial_success(notebook, body, kind) -> None:
    notebook.done = Accepted(300, "too old: ä")
    with served("http", notebook) as here:
        answered = post(here, body, kind)
    if kind == JSON:
        told = json_format.Parse(answered.body, ExportLogsServiceResponse())
    else:
        told = ExportLogsServiceResponse.FromString(answered.body)
    assert answered.status == 200
    assert told.partial_success.rejected_log_records == 300
    assert told.partial_success.error_message == "too old: ä"


@pytest.mark.parametrize(
    "body, kind, encoding, status",
    [
        (b"\xff\xff", PROTOBUF, "identity", 400),
        (ONE[:-2], PROTOBUF, "identity", 400),
        (b"{", JSON, "identity", 400),
        (b"[" * 100_000, JSON, "identity", 400),
        (b'{"resourceLogs":' * 20_000, JSON, "identity", 400),
        (ONE, JSON, "identity", 400),
        (ONE, PROTOBUF, "gzip", 400),
        (gzip.compress(ONE)[:-3], PROTOBUF, "gzip", 400),
        (gzip.compress(ONE)[:-3] + b"abc", PROTOBUF, "gzip", 400),
        (gzip.compress(ONE) + b"more", PROTOBUF, "gzip", 400),
        (b"", PROTOBUF, "gzip", 400),
        (gzip.compress(b"") * 2000, PROTOBUF, "gzip", 400),
        (ONE, PROTOBUF, "zstd", 415),
        (ONE, PROTOBUF, "gzip, gzip", 415),
        (ONE, "text/plain", "identity", 415),
        (ONE, "application/x-protobufx", "identity", 415),
        (bytes(1 << 20), PROTOBUF, "identity", 413),
        (gzip.compress(bytes(64 << 20)), PROTOBUF, "gzip", 413),
    ],
    ids=lambda value: str(len(value) if isinstance(value, bytes) else value),
)
def test_what_cannot_be_taken_is_refused_for_ever_and_nothing_is_stored(
    notebook, body, kind, encoding, status
) -> None:
    with served("http", notebook, message_bytes="512KiB") as here:
        answered = post(here, body, kind, Content_Encoding=encoding)
        assert sum(here.refused().values()) == 1
        assert here.desk.gauges()["quiver.receiver.waiting_bytes"] == 0
    assert answered.status == status
    assert answered.told.message
    assert answered.headers["retry-after"] is None
    assert notebook.taken == []


def test_a_chunked_body_is_counted_as_it_comes(notebook) -> None:
    pieces = (bytes(10_000) for _ in range(20))
    with served("http", notebook, message_bytes=100_000) as here:
        assert post(here, pieces).status == 413
        assert here.refused() == {"too_large": 1}


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/v1/logs", 405),
        ("PUT", "/v1/logs", 405),
        ("OPTIONS", "/v1/traces", 405),
        ("POST", "/v1/profiles", 404),
        ("POST", "/v1/logs/", 404),
        ("POST", "/V1/logs", 404),
        ("GET", "/", 404),
    ],
)
def test_other_paths_and_methods_are_refused(notebook, method, path, status) -> None:
    with served("http", notebook) as here:
        connection = connect(here)
        connection.request(method, path, ONE, {"Content-Type": PROTOBUF})
        answered = Answered(connection)
        connection.close()
    assert answered.status == status
    assert answered.headers["allow"] == ("POST" if status == 405 else None)


def test_without_the_token_nothing_is_even_looked_at(notebook) -> None:
    with served("http", notebook, token=Token(TOKEN)) as here:
        wrong = ["", "Bearer", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer ü" * 9]
        for value in wrong:
            answered = post(here, ONE, path="/nowhere", Authorization=value.encode("latin-1"))
            assert answered.status == 401
            assert answered.headers["www-authenticate"] == "Bearer"
            assert TOKEN.encode() not in answered.body
        assert post(here, ONE).status == 401
        assert notebook.taken == []
        assert post(here, ONE, Authorization=f"bearer {TOKEN}").status == 200
        assert here.refused() == {"unauthorized": len(wrong) + 1}


def test_what_comes_in_is_counted(notebook) -> None:
    notebook.done = Accepted(1, "one of them")
    with served("http", notebook) as here:
        post(here, logs_request("a", "b", "c"))
        counted = here.desk.metrics.read()
        (spent,) = here.desk.metrics.read_histograms().values()
    assert counted["quiver.receiver.requests", "logs"] == 1
    assert counted["quiver.receiver.items", "logs"] == 2
    assert counted["quiver.receiver.rejected_items", "logs"] == 1
    assert counted["quiver.receiver.bytes", "logs"] == len(logs_request("a", "b", "c"))
    assert sum(spent.counts) == 1
