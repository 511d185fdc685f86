"""Addresses to listen on, and which of them only this machine reaches."""

from __future__ import annotations

import pytest

from quiver.addresses import is_loopback, parse_address
from quiver.errors import InputError


@pytest.mark.parametrize(
    "text, address",
    [
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses(text, address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":", "x", "host:", "1:65536", "::1:80:x", "a b :1", "h:-1"])
def test_what_is_no_address(text) -> None:
    with pytest.raises(InputError, match="no address"):
        parse_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "localhost"])
def test_only_this_machine_reaches_loopback(host) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "localhost.example", "::2"])
def test_what_others_may_reach_is_not_loopback(host) -> None:
    assert not is_loopback(host)
