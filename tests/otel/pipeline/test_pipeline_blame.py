"""What cannot be started is told with the node that it is about, and what is said of secrets."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import quiver
from quiver.errors import InputError, LockedError, QuiverError, StorageError, VersionError
from quiver.otel import pipeline as pipelines
from quiver.otel.pipeline import examine_pipeline
from quiver.otel.signals import TELEMETRY

FILE = """\
nodes:
  in:
    kind: receiver
    plugin_urn: urn:otel:otlp:receiver
    out_ports: {out_port: {destinations: [keep]}}
    config: {protocols.http.listening_addr: "127.0.0.1:0", RECEIVER}
  keep:
    kind: processor
    plugin_urn: urn:otap:processor:persistence
    out_ports: {out_port: {destinations: [out]}}
    config: {path: data}
  out:
    kind: exporter
    plugin_urn: urn:otel:otlp:exporter
    config: {EXPORTER}
"""


@pytest.fixture
def write(tmp_path):
    def written(receiver="", exporter="http_endpoint: 'http://127.0.0.1:9'"):
        path = tmp_path / "p.yaml"
        path.write_text(FILE.replace("RECEIVER", receiver).replace("EXPORTER", exporter))
        return path

    return written


def refused(path) -> QuiverError:
    with pytest.raises(QuiverError) as caught:
        pipelines.open(path).start()
    return caught.value


GRPC = "grpc_endpoint: 'https://127.0.0.1:9'"


@pytest.mark.parametrize(
    "given, kind, told",
    [
        ({"receiver": "bearer_token_file: none"}, StorageError, ":2: nodes.in: cannot read"),
        ({"receiver": "bearer_token_file: p.yaml"}, InputError, ":2: nodes.in: the bearer token"),
        (
            {"receiver": "tls: {cert_file: none, key_file: none}"},
            StorageError,
            ":2: nodes.in: cannot read",
        ),
        (
            {"exporter": f"{GRPC}, bearer_token_file: none"},
            StorageError,
            ":12: nodes.out: cannot read",
        ),
        ({"exporter": f"{GRPC}, tls.ca_file: none"}, StorageError, ":12: nodes.out: cannot read"),
    ],
)
def test_what_is_missing_is_told_with_its_node(write, given, kind, told) -> None:
    path = write(**given)
    error = refused(path)
    assert isinstance(error, kind)
    assert str(error).startswith(f"{path}{told}")
    assert error.args[0] == error.message


def test_a_store_of_something_else_is_told_in_one_line(write, tmp_path) -> None:
    with quiver.open(tmp_path / "data", slots=["events"]) as store:
        store.append({"events": pa.record_batch({"a": [1]})})
    error = refused(write())
    assert isinstance(error, VersionError)
    assert error.message.endswith(f"{tmp_path / 'data'} is a store that was not made for telemetry")
    assert "nodes.keep: " in error.message
    assert "migrate" not in error.hint  # Nobody is to drop slots because a path was wrong.


def test_a_store_that_somebody_writes_is_told_with_its_node(write, tmp_path) -> None:
    with quiver.open(tmp_path / "data", slots=TELEMETRY):
        error = refused(write())
    assert isinstance(error, LockedError)
    assert ":7: nodes.keep: " in error.message
    assert error.pid > 0


def test_a_missing_package_is_told_with_its_node_and_its_extra(write, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)
    error = refused(write())
    assert isinstance(error, InputError)
    assert ":12: nodes.out: " in error.message
    assert "pip install 'quiver-store[otlp]'" in error.message


def notes_of(path) -> str:
    _, errors, notes = examine_pipeline(path)
    assert errors == []
    return "\n".join(notes)


def test_files_of_secrets_that_others_can_read_are_noted(write, tmp_path) -> None:
    token = tmp_path / "token"
    path = write("bearer_token_file: token")
    assert "nodes.in.config.bearer_token_file: " in notes_of(path)
    assert "cannot be read here: No such file" in notes_of(path)
    token.write_text("a" * 32)
    token.chmod(0o644)
    assert f"everybody on this machine can read {token}: chmod o-r" in notes_of(path)
    token.chmod(0o640)
    assert notes_of(path) == ""


def test_a_path_behind_an_address_of_grpc_is_noted(write) -> None:
    path = write(exporter="grpc_endpoint: 'http://127.0.0.1:9/v1/logs'")
    assert ":12: nodes.out.config.grpc_endpoint: gRPC has no paths: /v1/logs" in notes_of(path)
    assert notes_of(write(exporter="grpc_endpoint: 'http://127.0.0.1:9/'")) == ""


def test_an_endpoint_that_is_none_is_told_once(write) -> None:
    _, errors, _ = examine_pipeline(write(exporter="grpc_endpoint: '127.0.0.1:9'"))
    assert len(errors) == 1
    _, (error,), _ = examine_pipeline(write(exporter="timeout: 1s"))
    assert error.hint == "give grpc_endpoint or http_endpoint"


def test_an_option_of_a_store_is_no_name_in_braces(write) -> None:
    _, (error,), _ = examine_pipeline(write(), variables={"wal.max_size": "1GB"})
    assert error.hint.endswith("QUIVER_WAL__MAX_SIZE")
