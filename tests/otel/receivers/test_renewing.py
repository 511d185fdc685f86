"""A token is that which its file has now, if it can be used."""

from __future__ import annotations

import logging
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest
from one_sender import EXPORT, KIND
from receiver_kit import PATIENCE, Notebook, Served, logs_request, served

from quiver.errors import StorageError
from quiver.otel.receivers import Token
from quiver.testing import ManualClock

OLD, NEW = "the-first-of-two-tokens", "the-second-of-two-tokens"


def over_http(here: Served, token: str) -> bool:
    connection = HTTPConnection("127.0.0.1", here.port, timeout=PATIENCE)
    try:
        headers = {**KIND, "Authorization": f"Bearer {token}"}
        connection.request("POST", "/v1/logs", logs_request("one"), headers)
        return connection.getresponse().status == 200
    finally:
        connection.close()


def over_grpc(here: Served, token: str) -> bool:
    with grpc.insecure_channel(here.address) as channel:
        metadata = [("authorization", f"Bearer {token}")]
        try:
            channel.unary_unary(EXPORT)(logs_request("one"), metadata=metadata, timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                raise
            return False
    return True


@pytest.mark.parametrize("send", [over_http, over_grpc], ids=["http", "grpc"])
def test_a_token_that_was_replaced_is_asked_for_and_no_other(send, tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "quiver")
    path, clock = tmp_path / "token", ManualClock()
    path.write_text(OLD)
    token = Token.of_file(str(path))
    protocol = send.__name__.removeprefix("over_")
    with served(protocol, Notebook(), token=token, clock=clock) as here:
        assert (send(here, OLD), send(here, NEW)) == (True, False)
        for content in ("short", None):  # What cannot be used changes nothing.
            path.unlink() if content is None else path.write_text(content)
            clock.step(2)
            assert (send(here, OLD), send(here, NEW)) == (True, False)
        path.write_text(f"{NEW}\n")
        assert send(here, OLD)  # Nobody has looked yet.
        clock.step(2)
        assert (send(here, OLD), send(here, NEW)) == (False, True)
    told = [record.message for record in caplog.records if "renew" in record.message]
    assert told == ["receiver.renewal_failed", "receiver.renewed"]
    assert OLD not in caplog.text
    assert NEW not in caplog.text


def test_a_token_that_is_not_there_at_the_start_is_told(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(OLD)
    token = Token.of_file(str(path))
    path.unlink()
    with pytest.raises(StorageError, match="token"), served("http", Notebook(), token=token):
        pass
