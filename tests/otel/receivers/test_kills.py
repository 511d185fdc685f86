"""A receiver is killed between taking and answering: what was acknowledged is there."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import chain
from pathlib import Path

import grpc
import pytest
import receiver_child
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from receiver_kit import PATIENCE, items_of, logs_request, request_of

import quiver
from quiver.otel import Signal
from quiver.otel.batch import of_bundle

EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
KIND = {"Content-Type": "application/x-protobuf"}


def over_http(port: int, texts: list[str]) -> list[str]:
    """Send texts one by one until nobody answers; give those that were acknowledged."""
    connection, acked = HTTPConnection("127.0.0.1", port, timeout=PATIENCE), []
    try:
        for text in texts:
            connection.request("POST", "/v1/logs", logs_request(text), KIND)
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                acked.append(text)
    except (OSError, HTTPException):
        pass
    finally:
        connection.close()
    return acked


def over_grpc(port: int, texts: list[str]) -> list[str]:
    acked = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            for text in texts:
                channel.unary_unary(EXPORT)(logs_request(text), timeout=PATIENCE)
                acked.append(text)
        except grpc.RpcError:
            pass
    return acked


def stored_in(path: Path) -> list[str]:
    found = []
    with quiver.open(path, worker=False) as store:
        store.finalize()
        subscription = store.subscribe("looker")
        while (bundle := subscription.poll()) is not None:
            with bundle:
                request = ExportLogsServiceRequest.FromString(request_of(of_bundle(bundle)))
                found += [item.body.string_value for item in items_of(Signal.LOGS, request)]
    return found


@pytest.mark.parametrize("protocol, send", [("http", over_http), ("grpc", over_grpc)])
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path, protocol, send) -> None:
    path = tmp_path / "store"
    command = [sys.executable, receiver_child.__file__, str(path), protocol, "60"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            port = int(child.stdout.readline())
            sent = [[f"{sender} {number}" for number in range(40)] for sender in range(4)]
            with ThreadPoolExecutor(4) as senders:
                acked = [text for each in senders.map(partial(send, port), sent) for text in each]
            assert child.wait(PATIENCE) == -9
        finally:
            child.kill()
    stored = stored_in(path)
    assert len(acked) >= 50  # At most one of each sender, and the last one, went without answer.
    assert set(acked) <= set(stored) <= set(chain(*sent))
    assert len(stored) == len(set(stored)) >= 60
