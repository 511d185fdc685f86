"""Who has it in the end: a server of gRPC that answers at once, or as slowly as it is told to.

``python -m bench.otel.sink`` says ``listening PORT``. It keeps the number of each request that came
and when that was, on the clock that all processes share.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import numpy as np

from bench.kit import ROOT
from bench.otel.requests import number_in

__all__ = ["SinkClient", "sink_process"]

_THREADS: Final = 16
_EXPORT: Final = re.compile(r"/opentelemetry\.proto\.collector\..*/Export")
_PATIENCE: Final = 120.0
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


class Sink(grpc.GenericRpcHandler):
    """Takes exports, and words of the bench."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._came: list[tuple[int, int]] = []
        self._numbers: set[int] = set()
        self._turn = threading.Lock()
        self._seconds_each = 0.0

    def service(self, handler_call_details: Any) -> Any:
        """Give the handler of a call."""
        method = handler_call_details.method
        act = (
            self._export if _EXPORT.fullmatch(method) else getattr(self, method.rpartition("/")[2])
        )
        return grpc.unary_unary_rpc_method_handler(act)

    def _export(self, request: bytes, _: Any) -> bytes:
        at = time.monotonic_ns()
        number = number_in(request)
        if self._seconds_each:
            with self._turn:
                time.sleep(self._seconds_each)
        with self._changed:
            self._came.append((number, at))
            self._numbers.add(number)
            self._changed.notify_all()
        return b""

    def wait(self, request: bytes, _: Any) -> bytes:
        """Wait until so many different requests are here; say how many there are."""
        wanted = int(request)
        with self._changed:
            self._changed.wait_for(lambda: len(self._numbers) >= wanted, _PATIENCE)
            return str(len(self._numbers)).encode()

    def take(self, _request: bytes, _: Any) -> bytes:
        """Give all that came, and forget it."""
        with self._changed:
            found = np.array(self._came, np.int64)
            self._came, self._numbers = [], set()
        return found.tobytes()

    def pace(self, request: bytes, _: Any) -> bytes:
        """Take so many seconds for each request, one after the other."""
        self._seconds_each = float(request)
        return b""


class SinkClient:
    """Talks to a sink in another process."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", _OPTIONS)

    def _ask(self, word: str, value: object = "") -> bytes:
        call = self.channel.unary_unary(f"/bench/{word}")
        answer: bytes = call(str(value).encode(), timeout=2 * _PATIENCE, wait_for_ready=True)
        return answer

    def wait(self, count: int) -> int:
        """Wait until so many different requests are there; how many there are then."""
        return int(self._ask("wait", count))

    def take(self) -> Any:
        """Give rows of the number and the time of all that came, and have it forgotten."""
        return np.frombuffer(self._ask("take"), np.int64).reshape(-1, 2)

    def pace(self, a_second: float) -> None:
        """Let it take so many requests a second; 0 is as many as come."""
        self._ask("pace", 1 / a_second if a_second else 0.0)


@contextlib.contextmanager
def sink_process() -> Iterator[SinkClient]:
    """Start one, and end it behind the block."""
    command = [sys.executable, "-m", "bench.otel.sink"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        client = SinkClient(int(process.stdout.readline().split()[1]))
        yield client
        client.channel.close()
    finally:
        process.terminate()
        process.wait(_PATIENCE)
        process.stdout.close()


def main() -> None:
    """Serve until ended."""
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=_OPTIONS)
    server.add_generic_rpc_handlers((Sink(),))
    print(f"listening {server.add_insecure_port('127.0.0.1:0')}", flush=True)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
