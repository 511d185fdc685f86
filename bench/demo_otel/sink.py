"""Who has the logs in the end: ``python -m bench.demo_otel.sink FILE [PORT]``.

A server of OTLP made of the OpenTelemetry project's own messages. The number of each line that came
is in ``FILE`` as eight bytes, synced before the answer. It says ``listening PORT``.
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import numpy as np
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc

from bench.demo_stream.telling import say

__all__ = ["LINE_NUMBER", "main", "numbers"]

LINE_NUMBER: Final = "line"
"""The attribute with the number of a line."""
_MESSAGE_BYTES: Final = 64 << 20


class Sink(logs_service_pb2_grpc.LogsServiceServicer):
    """Keeps the numbers of lines."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 Closed with the process.
        self._lock = threading.Lock()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 The name of the protocol.
        """Write down what came, then answer."""
        del context
        found = [
            int(attribute.value.string_value)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
            for attribute in record.attributes
            if attribute.key == LINE_NUMBER
        ]
        with self._lock:
            self._file.write(np.array(found, np.int64).tobytes())
            os.fdatasync(self._file.fileno())
        return logs_service_pb2.ExportLogsServiceResponse()


def numbers(path: str) -> Any:
    """Read the numbers of lines that a sink has; each as often as it came."""
    return np.fromfile(path, np.int64) if os.path.exists(path) else np.zeros(0, np.int64)


def main(path: str, port: int = 0) -> None:
    """Serve until killed."""
    options = [("grpc.max_receive_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(4), options=options)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Sink(path), server)
    say(f"listening {server.add_insecure_port(f'127.0.0.1:{port}')}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
