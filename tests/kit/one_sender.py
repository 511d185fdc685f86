"""One request over HTTP or gRPC, and what became of it in a word."""

from __future__ import annotations

from http.client import HTTPConnection

import grpc
from google.rpc.status_pb2 import Status
from receiver_kit import PATIENCE, Served

__all__ = ["EXPORT", "KIND", "SENDERS", "over_grpc", "over_http"]

EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
KIND = {"Content-Type": "application/x-protobuf"}
_GONE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
"""Of a server that ends: without a connection, and of a call that it ends. Both are to be repeated,
as OTLP has it."""


def over_http(here: Served, body: bytes) -> str:
    connection = HTTPConnection("127.0.0.1", here.port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/logs", body, KIND)
        response = connection.getresponse()
        retry_after, status = response.getheader("retry-after"), response.status
    except ConnectionError:
        return "gone"
    finally:
        connection.close()
    return "later" if retry_after and status in {429, 503} else str(status)


def over_grpc(here: Served, body: bytes) -> str:
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(here.address, options=options) as channel:
        try:
            channel.unary_unary(EXPORT)(body, timeout=PATIENCE)
        except grpc.RpcError as error:
            details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
            if error.code() in _GONE and not details:
                return "gone"
            return "later" if Status.FromString(details).details else str(error.code())
    return "200"


SENDERS = {"http": over_http, "grpc": over_grpc}
