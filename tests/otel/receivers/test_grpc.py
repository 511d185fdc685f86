"""OTLP over gRPC: what is answered to whom."""

from __future__ import annotations

import gzip
import threading
from contextlib import ExitStack, contextmanager

import grpc
import pytest
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

ONE = logs_request("one")
SERVICES = {Signal.LOGS: "logs.v1.Logs", Signal.TRACES: "trace.v1.Trace"}
SERVICES |= {Signal.METRICS: "metrics.v1.Metrics"}


def method(signal: Signal) -> str:
    return f"/opentelemetry.proto.collector.{SERVICES[signal]}Service/Export"


@contextmanager
def channel_to(here: Served):
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(here.address, options=options) as channel:
        yield channel


def export(here: Served, body: bytes, signal=Signal.LOGS, **options):
    with channel_to(here) as channel:
        return channel.unary_unary(method(signal))(body, timeout=PATIENCE, **options)


def refused(here: Served, body: bytes, **options) -> tuple[grpc.StatusCode, Status]:
    with pytest.raises(grpc.RpcError) as told:
        export(here, body, **options)
    found = dict(told.value.trailing_metadata() or ())
    return told.value.code(), Status.FromString(found.get("grpc-status-details-bin", b""))


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.mark.parametrize("signal", Signal)
def test_what_was_taken_is_answered_with_an_empty_response(notebook, signal) -> None:
    with served("grpc", notebook) as here:
        assert export(here, empty_item(signal), signal) == b""
    assert notebook.taken == [(signal, empty_item(signal))]


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_what_comes_compressed_is_stored_as_it_was_before(notebook, compression) -> None:
    body = logs_request("x" * 10_000)
    with served("grpc", notebook) as here:
        assert export(here, body, compression=compression) == b""
    assert notebook.taken == [(Signal.LOGS, body)]


def test_a_request_without_any_item_is_taken_and_nothing_is_stored(notebook) -> None:
    with served("grpc", notebook) as here:
        assert export(here, b"") == b""
    assert notebook.taken == []


@pytest.mark.parametrize(
    "error, code",
    [
        (CapacityError("store is full at /secret/path"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (StorageError("no disk", path="/secret/path"), grpc.StatusCode.UNAVAILABLE),
        (PoisonedError("a sync failed in /secret/path"), grpc.StatusCode.UNAVAILABLE),
        (ClosedError("it is closed"), grpc.StatusCode.UNAVAILABLE),
        (ConfigError("an option of ours is wrong"), grpc.StatusCode.UNAVAILABLE),
        (InputError("the bundle has too many rows"), grpc.StatusCode.INVALID_ARGUMENT),
        (InputError("half a letter: \ud800, \n, ä"), grpc.StatusCode.INVALID_ARGUMENT),
        (RuntimeError("/secret/path"), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_an_error_of_the_intake_is_told_with_details(notebook, error, code) -> None:
    notebook.error = error
    with served("grpc", notebook, retry_seconds=7) as here:
        told_code, told = refused(here, ONE)
    assert told_code is code
    assert told.code == code.value[0]
    assert "secret" not in told.message
    info = RetryInfo()
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        assert not told.details
    else:
        assert told.details[0].Unpack(info)
        assert info.retry_delay.seconds == 7
    assert notebook.taken == []


def test_what_was_rejected_of_a_request_is_told_as_partial_success(notebook) -> None:
    notebook.done = Accepted(300, "too old")
    with served("grpc", notebook) as here:
        told = ExportLogsServiceResponse.FromString(export(here, ONE))
    assert told.partial_success.rejected_log_records == 300
    assert told.partial_success.error_message == "too old"


@pytest.mark.parametrize("body", [b"\xff\xff", ONE[:-2], gzip.compress(ONE, mtime=0)])
def test_what_is_malformed_is_refused_for_ever(notebook, body) -> None:
    with served("grpc", notebook) as here:
        code, told = refused(here, body)
        assert here.refused() == {"malformed": 1}
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert not told.details
    assert notebook.taken == []


@pytest.mark.parametrize(
    "size, compression", [(1 << 20, None), (64 << 20, grpc.Compression.Gzip)], ids=["plain", "bomb"]
)
def test_what_is_too_large_is_refused_for_ever(notebook, size, compression) -> None:
    with served("grpc", notebook, message_bytes="512KiB") as here:
        code, told = refused(here, bytes(size), compression=compression)
        assert export(here, ONE) == b""
        assert here.desk.gauges()["quiver.receiver.waiting_bytes"] == 0
        assert here.refused() == {"too_large": 1}
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not told.details  # Without RetryInfo nobody sends it again.
    assert notebook.texts() == ["one"]


def test_another_service_is_not_implemented(notebook) -> None:
    with served("grpc", notebook) as here, channel_to(here) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as told:
            check(b"", timeout=PATIENCE)
    assert told.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_without_the_token_nothing_is_even_looked_at(notebook) -> None:
    with served("grpc", notebook, token=Token(TOKEN)) as here:
        for value in ("", "Bearer", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN):
            code, told = refused(here, ONE, metadata=[("authorization", value)])
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert TOKEN not in told.message
        twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")]
        assert refused(here, ONE, metadata=twice)[0] is grpc.StatusCode.UNAUTHENTICATED
        assert refused(here, ONE)[0] is grpc.StatusCode.UNAUTHENTICATED
        assert notebook.taken == []
        assert export(here, ONE, metadata=[("authorization", f"Bearer {TOKEN}")]) == b""
        assert here.refused() == {"unauthorized": 7}


def never(over: threading.Event):
    assert over.wait(PATIENCE)
    yield from ()


def test_nobody_is_waited_for_for_ever(notebook) -> None:
    over = threading.Event()
    with served("grpc", notebook, body_seconds=0.2) as here, channel_to(here) as channel:
        with pytest.raises(grpc.RpcError) as told:
            channel.stream_unary(method(Signal.LOGS))(never(over), timeout=PATIENCE)
        over.set()
        assert here.desk.gauges()["quiver.receiver.waiting_bytes"] == 0
        assert here.refused() == {"slow": 1}
    assert told.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_call_without_a_request_is_refused(notebook) -> None:
    with served("grpc", notebook) as here, channel_to(here) as channel:
        stream = channel.stream_unary(method(Signal.LOGS))
        with pytest.raises(grpc.RpcError) as told:
            stream(iter(()), timeout=PATIENCE)
    assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert notebook.taken == []


def test_no_more_connections_are_kept_than_there_may_be(notebook) -> None:
    with served("grpc", notebook, connections=2) as here, ExitStack() as held:
        channels = [held.enter_context(channel_to(here)) for _ in range(6)]
        calls = [channel.unary_unary(method(Signal.LOGS)) for channel in channels]
        assert [call(ONE, timeout=PATIENCE) for call in calls[:2]] == [b"", b""]
        codes = {call.future(ONE, timeout=PATIENCE).code() for call in calls[2:]}
        assert codes == {grpc.StatusCode.UNAVAILABLE}
    assert notebook.texts() == ["one", "one"]
