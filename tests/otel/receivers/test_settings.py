"""Where a receiver may listen, tokens that nobody sees, and limits that mean something."""

from __future__ import annotations

import pickle

import pytest
from receiver_kit import TOKEN

from quiver.errors import ConfigError, StorageError
from quiver.otel.receivers import Limits, Settings, Tls, Token

SIGNED = Tls("c.pem", "k.pem", client_ca="ca.pem")


@pytest.mark.parametrize(
    "settings",
    [
        {"address": "127.0.0.1:4317"},
        {"address": "4317"},
        {"address": "[::1]:4317"},
        {"address": "localhost:4317"},
        {"address": "0.0.0.0:4317", "insecure": True},
        {"address": "0.0.0.0:4317", "tls": Tls("c.pem", "k.pem"), "token": Token(TOKEN)},
        {"address": "collector.example:4317", "tls": SIGNED},
    ],
)
def test_a_receiver_may_listen_there(settings) -> None:
    Settings(**settings).check()


@pytest.mark.parametrize(
    "settings, lacking",
    [
        ({"address": "0.0.0.0:4317"}, "TLS"),
        ({"address": "[::]:4317"}, "TLS"),
        ({"address": "10.0.0.1:4317", "token": Token(TOKEN)}, "TLS"),
        ({"address": "collector.example:4317"}, "TLS"),
        ({"address": "10.0.0.1:4317", "tls": Tls("c.pem", "k.pem")}, "token"),
    ],
)
def test_it_is_not_open_to_anybody_unless_somebody_says_so(settings, lacking) -> None:
    with pytest.raises(ConfigError, match=lacking) as told:
        Settings(**settings).check()
    assert "insecure: true" in told.value.hint
    Settings(**settings, insecure=True).check()


@pytest.mark.parametrize(
    "limits",
    [
        {"requests": 0},
        {"connections": 0},
        {"message_bytes": 0},
        {"message_bytes": "2GiB"},
        {"message_bytes": "many"},
        {"head_bytes": 0},
        {"body_seconds": 0},
        {"idle_seconds": "0s"},
        {"retry_seconds": 0},
    ],
)
def test_limits_are_more_than_nothing(limits) -> None:
    with pytest.raises(ConfigError):
        Settings(address="127.0.0.1:0", limits=Limits(**limits)).check()


def test_memory_is_bounded_by_what_the_limits_say() -> None:
    assert Limits().memory_bytes == 2 * 32 * (4 << 20)


@pytest.mark.parametrize("text", [TOKEN, f" {TOKEN}\n", f"{TOKEN}\r\n"])
def test_a_token_comes_from_a_file_or_the_environment(tmp_path, text) -> None:
    (tmp_path / "token").write_text(text)
    tokens = [Token.of_file(str(tmp_path / "token")), Token.of_environment({"T": text}, "T")]
    for token in tokens:
        assert token.allows(f"Bearer {TOKEN}".encode())
        assert not token.allows(f"Bearer {TOKEN}x".encode())
        assert not token.allows(b"Bearer")
        assert not token.allows(b"")


@pytest.mark.parametrize("text", ["", "short", "a" * 15, "with a space in it", "ünsäglich" * 3])
def test_what_is_no_token_is_refused_and_not_told(tmp_path, text) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigError) as told:
        Token.of_file(str(tmp_path / "token"))
    assert not text or text not in str(told.value)


def test_a_token_of_many_lines_or_of_no_file_is_refused(tmp_path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n{TOKEN}\n")
    with pytest.raises(ConfigError):
        Token.of_file(str(tmp_path / "token"))
    (tmp_path / "token").write_bytes(b"x" * 10_000)
    with pytest.raises(ConfigError):
        Token.of_file(str(tmp_path / "token"))
    with pytest.raises(StorageError):
        Token.of_file(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="QUIVER_TOKEN"):
        Token.of_environment({}, "QUIVER_TOKEN")


def test_nobody_sees_a_token() -> None:
    settings = Settings(address="127.0.0.1:0", token=Token(TOKEN))
    assert TOKEN not in repr(settings)
    assert TOKEN not in str(settings)
    with pytest.raises(TypeError):
        pickle.dumps(settings.token)
