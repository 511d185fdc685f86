"""OTLP over HTTP: each batch is one POST of Protocol Buffers, several under way at once."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from quiver.clock import Clock
from quiver.extras import needed
from quiver.otel.batch import Batch
from quiver.otel.exporters.answers import of_http, plain
from quiver.otel.exporters.endpoint import OtlpOptions
from quiver.otel.exporters.requests import request_of
from quiver.otel.nodes import Delivered, Gather, Outcome, Refused, Retry
from quiver.units import SECOND

if TYPE_CHECKING:
    import urllib3

__all__ = ["OtlpHttpExporter"]

_PIECE: Final = 64 << 10
_GZIP_LEVEL: Final = 1
_LATE: Final = Retry("the answer took too long")
_GRACE: Final = 1.0
"""Seconds for what is done beside waiting, such as compressing."""
_BOTH_WAYS: Final = 2
"""What a socket calls an end of reading and of writing."""
_TYPE: Final = "application/x-protobuf"


class OtlpHttpExporter:
    """Sends to ``<endpoint>/v1/logs`` and its like; for one thread."""

    def __init__(
        self, options: OtlpOptions, encode: Callable[[Batch], bytes], *, clock: Clock
    ) -> None:
        """Connect when there is something to send; ``encode`` makes an export request."""
        with needed("urllib3", extra="otlp"):
            import urllib3
        self._options = options
        self._encode = encode
        self._clock = clock
        self._headers = self._renewed()
        self._connections: WeakSet[Any] = WeakSet()
        self._pool = _pool(urllib3, options, self._connections)
        self._threads = ThreadPoolExecutor(options.in_flight, "quiver-otlp-http")

    @property
    def gather(self) -> Gather:
        """As much as may be under way at once, without waiting for it."""
        return Gather(batches=self._options.in_flight)

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Send all, so many at once as the options say, and wait for each answer."""
        self._headers = self._renewed()
        outcomes: list[Outcome] = []
        width = self._options.in_flight
        for first in range(0, len(delivered), width):
            calls = [
                self._threads.submit(self._send, each.batch)
                for each in delivered[first : first + width]
            ]
            _, late = wait(calls, self._options.timeout / SECOND + _GRACE)
            if late:
                self._break_off()
            # A head that ends too early would pass for a whole one.
            found = [(call.result(), call in late) for call in calls]
            outcomes += [_LATE if is_late else outcome for outcome, is_late in found]
        return outcomes

    def _break_off(self) -> None:
        """End all connections: an answer came byte by byte, and no wait for one byte was long."""
        for connection in list(self._connections):
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(_BOTH_WAYS)

    def _renewed(self) -> dict[str, str]:
        self._secret = self._options.all_headers
        headers = {**self._secret, "content-type": _TYPE}
        if self._options.compression == "gzip":
            headers["content-encoding"] = "gzip"
        return headers

    def _clean(self, text: str) -> str:
        return self._options.clean(text, self._secret)

    def _send(self, batch: Batch) -> Outcome:
        import urllib3

        body = request_of(self._encode, batch)
        if isinstance(body, Refused):
            return body
        if self._options.compression == "gzip":
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        until_ns = self._clock.monotonic_ns() + self._options.timeout
        try:
            answer = self._pool.request(
                "POST",
                f"{self._options.endpoint.path}/v1/{batch.signal}",
                body=body,
                headers=self._headers,
                timeout=urllib3.Timeout(total=self._options.timeout / SECOND),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=True,
            )
            return self._read(answer, until_ns)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return Retry(plain(self._clean(f"{type(error).__name__}: {error}")))

    def _read(self, answer: urllib3.BaseHTTPResponse, until_ns: int) -> Outcome:
        """Read as much as is allowed; a connection with more to come is not used again."""
        body, whole = bytearray(), True
        try:
            for piece in answer.stream(_PIECE):
                body += piece
                if len(body) > self._options.answer_bytes:
                    whole = False
                    break
                if self._clock.monotonic_ns() > until_ns:
                    return _LATE
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return of_http(
                answer.status,
                headers,
                bytes(body[: self._options.answer_bytes]),
                now_ns=self._clock.wall_ns(),
                whole=whole,
                clean=self._clean,
            )
        finally:
            if whole and answer.closed:
                answer.release_conn()
            else:
                answer.close()

    def close(self) -> None:
        """Let go of connections."""
        self._threads.shutdown()
        self._pool.close()

    def __repr__(self) -> str:
        """Say where it sends to."""
        return f"<OTLP over HTTP to {self._options.endpoint.shown}>"


def _pool(urllib3: Any, options: OtlpOptions, connections: WeakSet[Any]) -> Any:  # noqa: ANN401
    """Make a pool; whoever it connects is in ``connections``."""
    pool = _bare_pool(urllib3, options)

    class Connection(pool.ConnectionCls):  # type: ignore[misc, name-defined]
        def connect(self) -> None:
            connections.add(self)
            super().connect()

    pool.ConnectionCls = Connection
    return pool


def _bare_pool(urllib3: Any, options: OtlpOptions) -> Any:  # noqa: ANN401
    where, tls = options.endpoint, options.tls
    size = {"maxsize": options.in_flight, "block": False}
    if not where.is_secure:
        return urllib3.HTTPConnectionPool(where.host, where.port, **size)
    for name in ("ca_file", "cert_file", "key_file"):
        tls.read(name)  # A mistyped name is told now, and not with each request.
    return urllib3.HTTPSConnectionPool(
        where.host,
        where.port,
        cert_reqs="CERT_REQUIRED",
        ca_certs=tls.ca_file or None,
        cert_file=tls.cert_file or None,
        key_file=tls.key_file or None,
        server_hostname=tls.server_name or None,
        assert_hostname=tls.server_name or None,
        **size,
    )
