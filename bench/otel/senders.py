"""Senders of requests that were made before, over connections of gRPC or HTTP."""

from __future__ import annotations

import http.client
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc

from bench.otel.requests import Template

__all__ = ["CONNECTIONS", "CONSUMERS", "IN_FLIGHT", "Paced", "push"]

CONNECTIONS: Final = 4
IN_FLIGHT: Final = 6
"""Calls of one connection of gRPC; of HTTP/1.1 there is one."""
CONSUMERS: Final = 10
"""Connections of HTTP/1.1: as many as a sending queue of the collector has consumers."""
_EXPORT: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_AGAIN_SECONDS: Final = 0.05
_OPTIONS: Final = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
_HEADERS: Final = {"content-type": "application/x-protobuf"}
_BUSY: Final = 429
_RETRYABLE: Final = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
_NO_ROOM: Final = "there is no room"


class _Numbers:
    """The numbers that are still to be sent, for several threads."""

    def __init__(self, first: int, count: int) -> None:
        self._rest = iter(range(first, first + count))
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        while True:
            with self._lock:
                number = next(self._rest, None)
            if number is None:
                return
            yield number


def push(
    protocol: str, address: str, template: Template, count: int, *, connections: int = CONNECTIONS
) -> int:
    """Send so many until each was taken; how often the answer was to send one again."""
    numbers, again = _Numbers(0, count), [0]
    act = {"gRPC": _push_grpc, "HTTP": _push_http}[protocol]
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act(address, template, numbers, again)
        except BaseException as error:  # noqa: BLE001 It is raised by whoever waits.
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return again[0]


def _push_grpc(address: str, template: Template, numbers: _Numbers, again: list[int]) -> None:
    with grpc.insecure_channel(address, _OPTIONS) as channel:
        call = channel.unary_unary(_EXPORT)
        under: deque[tuple[int, Any]] = deque()
        for number in numbers:
            under.append((number, call.future(template.numbered(number))))
            while len(under) >= IN_FLIGHT:
                _settle(call, template, under, again)
        while under:
            _settle(call, template, under, again)


def _settle(call: Any, template: Template, under: deque[tuple[int, Any]], again: list[int]) -> None:
    """Wait for the oldest call; one that is to be sent again goes to the end."""
    number, future = under.popleft()
    try:
        future.result()
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        again[0] += 1
        time.sleep(_AGAIN_SECONDS)
        under.append((number, call.future(template.numbered(number))))


def _push_http(address: str, template: Template, numbers: _Numbers, again: list[int]) -> None:
    connection = http.client.HTTPConnection(address)
    try:
        for number in numbers:
            while True:
                connection.request("POST", "/v1/logs", template.numbered(number), _HEADERS)
                answer = connection.getresponse()
                answer.read()
                if answer.status != _BUSY:
                    break
                again[0] += 1
                time.sleep(_AGAIN_SECONDS)
            assert answer.status == 200, answer.status
    finally:
        connection.close()


class Paced:
    """Sends at a rate over gRPC, whatever is answered, and knows when each was sent and taken."""

    def __init__(self, address: str, template: Template) -> None:
        self._template = template
        self._channels = [grpc.insecure_channel(address, _OPTIONS) for _ in range(CONNECTIONS)]
        self._calls = [channel.unary_unary(_EXPORT) for channel in self._channels]
        self._pending: list[tuple[int, Any]] = []
        self.sent_ns: dict[int, int] = {}
        self.taken: list[int] = []
        self.refused = 0
        self.full = 0
        """So many of those that were refused found no room in the store."""
        self.failed: list[str] = []

    def run(
        self, first: int, count: int, a_second: float, *, look: Callable[[], object] = lambda: None
    ) -> None:
        """Send so many, each when its time is there, and wait for all answers."""
        begun = time.monotonic()
        for step in range(count):
            wait = begun + step / a_second - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            number = first + step
            request = self._template.numbered(number)
            self.sent_ns[number] = time.monotonic_ns()
            self._pending.append((number, self._calls[step % CONNECTIONS].future(request)))
            if step % 50 == 0:
                self._collect(is_end=False)
                look()
        self._collect(is_end=True)

    def _collect(self, *, is_end: bool) -> None:
        rest = []
        for number, future in self._pending:
            if not is_end and not future.done():
                rest.append((number, future))
                continue
            code = future.code()
            if code is grpc.StatusCode.OK:
                self.taken.append(number)
            elif code in _RETRYABLE:
                self.refused += 1
                self.full += _NO_ROOM in future.details()
            else:
                self.failed.append(f"{code}: {future.details()}")
        self._pending = rest

    def close(self) -> None:
        """Let go of the connections."""
        for channel in self._channels:
            channel.close()
