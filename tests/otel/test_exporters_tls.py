"""TLS: a certificate that is trusted, one that is not, and one for us."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import pytest
from otlp_sinks import grpc_sink, logs_batch

from quiver.errors import ConfigError
from quiver.otel.exporters import (
    Endpoint,
    OtlpGrpcExporter,
    OtlpHttpExporter,
    OtlpOptions,
    Tls,
    joined,
)
from quiver.otel.nodes import Accepted, Delivered, Outcome, Retry
from quiver.testing import ManualClock

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the keys")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("server", "other"):
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
                *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
                *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
                *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"),
            ],
            check=True,
            capture_output=True,
        )
    return folder


def options(port: int, **tls: str) -> OtlpOptions:
    where = Endpoint.parse(f"https://127.0.0.1:{port}", port=1)
    return OtlpOptions(endpoint=where, tls=Tls(**tls))


def export(exporter: OtlpGrpcExporter | OtlpHttpExporter) -> Outcome:
    try:
        return next(iter(exporter.export([Delivered(logs_batch("a"), None)])))
    finally:
        exporter.close()


def check(make: Callable[[Tls], Outcome], keys: Path) -> None:
    """Who is not trusted is not sent to, and what waits for it is not lost."""
    ours = {"cert_file": str(keys / "other.pem"), "key_file": str(keys / "other.key")}
    good = make(Tls(ca_file=str(keys / "server.pem"), **ours))
    assert good == Accepted()
    for wrong in (Tls(ca_file=str(keys / "other.pem"), **ours), Tls(**ours)):
        assert isinstance(make(wrong), Retry)
    assert isinstance(make(Tls(ca_file=str(keys / "server.pem"))), Retry)


def test_grpc_trusts_whom_it_is_told_to_trust(keys: Path) -> None:
    pair = ((keys / "server.key").read_bytes(), (keys / "server.pem").read_bytes())
    trusted = (keys / "other.pem").read_bytes()
    credentials = grpc.ssl_server_credentials([pair], trusted, require_client_auth=True)
    with grpc_sink(credentials=credentials) as sink:
        where = Endpoint.parse(f"https://127.0.0.1:{sink.port}", port=1)

        def make(tls: Tls) -> Outcome:
            return export(OtlpGrpcExporter(OtlpOptions(endpoint=where, tls=tls), joined))

        check(make, keys)
    assert sink.texts == ["a"]


def test_http_trusts_whom_it_is_told_to_trust(keys: Path) -> None:
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            came.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(HTTPServer):
        def handle_error(self, *_: object) -> None:
            """A handshake that fails is expected."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    context.load_verify_locations(keys / "other.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    where = Endpoint.parse(f"https://127.0.0.1:{server.server_port}", port=1)

    def make(tls: Tls) -> Outcome:
        given = OtlpOptions(endpoint=where, tls=tls)
        return export(OtlpHttpExporter(given, joined, clock=ManualClock()))

    try:
        check(make, keys)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert came == ["/v1/logs"]


def test_files_that_hold_no_keys_are_refused_at_once(keys: Path) -> None:
    (keys / "empty.pem").write_text("")
    with pytest.raises(ConfigError, match="nothing in PEM"):
        OtlpGrpcExporter(options(1, ca_file=str(keys / "empty.pem")), joined)
