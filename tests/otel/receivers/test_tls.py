"""Receivers with TLS: who is let in, and what a wrong certificate or a plain word gets."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from http.client import HTTPSConnection
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from receiver_kit import PATIENCE, TOKEN, Notebook, logs_request, served

from quiver.errors import ConfigError, StorageError
from quiver.otel.receivers import Tls, Token
from quiver.testing import ManualClock

ONE = logs_request("one")
EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


class Files(NamedTuple):
    certificate: str
    key: str


def certificate(folder: Path, name: str) -> Files:
    """Make a certificate that signed itself, for this machine."""
    files = Files(str(folder / f"{name}.pem"), str(folder / f"{name}.key"))
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", files.key),
            *("-out", files.certificate, "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return files


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Files:
    return certificate(tmp_path_factory.mktemp("ours"), "receiver")


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Files:
    return certificate(tmp_path_factory.mktemp("client"), "client")


def over_http(port: int, trusted: Files, mine: Files | None = None) -> int:
    context = ssl.create_default_context(cafile=trusted.certificate)
    if mine is not None:
        context.load_cert_chain(mine.certificate, mine.key)
    connection = HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    kind = {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {TOKEN}"}
    try:
        connection.request("POST", "/v1/logs", ONE, kind)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def over_grpc(port: int, trusted: Files, mine: Files | None = None) -> int:
    def content(path: str) -> bytes:
        return Path(path).read_bytes()

    pair = (content(mine.key), content(mine.certificate)) if mine else (None, None)
    credentials = grpc.ssl_channel_credentials(content(trusted.certificate), *pair)
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        try:
            metadata = [("authorization", f"Bearer {TOKEN}")]
            channel.unary_unary(EXPORT)(ONE, metadata=metadata, timeout=PATIENCE)
        except grpc.RpcError:
            return 0
    return 200


SENDERS = {"http": over_http, "grpc": over_grpc}


@pytest.mark.parametrize("protocol", SENDERS)
def test_who_trusts_the_certificate_and_has_the_token_is_let_in(protocol, ours, client) -> None:
    notebook = Notebook()
    with served(protocol, notebook, tls=Tls(*ours), token=Token(TOKEN)) as here:
        assert SENDERS[protocol](here.port, ours) == 200
        assert SENDERS[protocol](here.port, client) == 0  # It trusts another one.
    assert notebook.texts() == ["one"]


@pytest.mark.parametrize("protocol", SENDERS)
def test_without_a_certificate_of_its_own_no_client_is_let_in(protocol, ours, client) -> None:
    notebook = Notebook()
    tls = Tls(*ours, client_ca=client.certificate)
    with served(protocol, notebook, tls=tls) as here:
        assert SENDERS[protocol](here.port, ours, client) == 200
        assert SENDERS[protocol](here.port, ours) == 0
        assert SENDERS[protocol](here.port, ours, ours) == 0
    assert notebook.texts() == ["one"]


@pytest.mark.parametrize(
    "word", [b"POST /v1/logs HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05half", b""]
)
def test_a_handshake_that_comes_to_nothing_holds_no_connection(ours, word) -> None:
    notebook = Notebook()
    with served("http", notebook, tls=Tls(*ours), head_seconds=0.3) as here:
        with socket.create_connection(("127.0.0.1", here.port), timeout=PATIENCE) as connection:
            connection.sendall(word)
            connection.recv(65536)
            while connection.recv(65536):
                pass
        assert over_http(here.port, ours) == 200
        assert here.desk.metrics.read()["quiver.receiver.refused_connections", ""] == 1


@pytest.mark.parametrize("protocol", SENDERS)
def test_a_certificate_that_cannot_be_used_is_told_at_once(
    protocol, ours, client, tmp_path
) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    wrong = [Tls(ours.certificate, client.key), Tls(str(tmp_path / "no.pem"), ours.key)]
    for tls in wrong:
        with pytest.raises(ConfigError, match="certificate"), served(protocol, Notebook(), tls=tls):
            pass
    missing = Tls(str(tmp_path / "none.pem"), ours.key)
    with pytest.raises(StorageError, match=r"none\.pem"), served(protocol, Notebook(), tls=missing):
        pass


@pytest.mark.parametrize("protocol", SENDERS)
def test_connections_that_come_later_see_a_certificate_that_was_replaced(
    protocol, ours, client, tmp_path
) -> None:
    def put(files: Files) -> None:
        for source, target in zip(files, mine, strict=True):
            shutil.copy(source, f"{target}.new")
            Path(f"{target}.new").rename(target)

    mine, clock = Files(str(tmp_path / "c.pem"), str(tmp_path / "c.key")), ManualClock()
    put(ours)
    with served(protocol, Notebook(), tls=Tls(*mine), clock=clock) as here:
        send = SENDERS[protocol]
        assert send(here.port, ours) == 200
        put(Files(client.certificate, ours.key))  # Half of it.
        clock.step(2)
        assert send(here.port, ours) == 200
        put(client)
        assert send(here.port, ours) == 200  # Nobody has looked yet.
        clock.step(2)
        assert send(here.port, client) == 200
        assert send(here.port, ours) == 0
