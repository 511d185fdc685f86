"""Options of receivers and exporters: wrong ones are told by the file, right ones are used."""

from __future__ import annotations

import re

import pytest

from quiver.errors import ConfigError
from quiver.otel.pipeline.findings import Findings
from quiver.otel.pipeline.kinds import find_kind
from quiver.otel.pipeline.options import read_options
from quiver.otel.pipeline.standard import _limits
from quiver.otel.receivers import Limits

SECRET = "as-secret-as-can-be"


def read(role: str, **options: object) -> tuple[dict[str, object], list[ConfigError]]:
    known, found = find_kind(role, f"urn:otel:otlp:{role}").options, Findings("p.yaml")
    return read_options(options, known, key="nodes.n.config", line=1, found=found), found.errors


@pytest.mark.parametrize(
    "role, option, value, told",
    [
        ("receiver", "bearer_token", "short-secret", "it cannot be used"),
        ("receiver", "bearer_token", f"{SECRET} {SECRET}", "it cannot be used"),
        ("receiver", "max_request_size", "2GiB", "not above 0 and below 2GiB"),
        ("receiver", "idle_timeout", "60d", "not between 1ms and 7d"),
        ("exporter", "timeout", "0s", "not between 1ms and 7d"),
        ("exporter", "headers", {"a": f"{SECRET}é"}, "no header can hold it"),
        (
            "exporter",
            "headers",
            {"grpc-timeout": SECRET},
            "'grpc-timeout' is not for anybody to set",
        ),
        ("exporter", "headers", {"X-Trace-Bin": SECRET}, "is not for anybody to set"),
        ("exporter", "headers", {"Host": SECRET}, "is not for anybody to set"),
        ("exporter", "grpc_endpoint", f"user:{SECRET}@host:1", "a URL with a user in it"),
        ("exporter", "grpc_endpoint", f"https:/user:{SECRET}@host", "a URL with a user in it"),
        ("exporter", "grpc_endpoint", "http://[::1:4317", "needs brackets"),
    ],
)
def test_what_cannot_be_used_is_told_and_no_secret_with_it(role, option, value, told) -> None:
    _, (error,) = read(role, **{option: value})
    assert re.search(told, str(error))
    assert "secret-" not in str(error).replace("bearer", "")


def test_without_options_the_limits_are_those_of_a_receiver() -> None:
    options, errors = read("receiver")
    assert errors == []
    found, wanted = _limits(options), Limits()
    assert found.message_size == wanted.message_size
    for name in ("head_seconds", "body_seconds", "idle_seconds"):
        assert found.seconds(name) == wanted.seconds(name)
    for name in ("requests", "connections", "retry_seconds"):
        assert getattr(found, name) == getattr(wanted, name)


def test_each_limit_is_set_by_its_option() -> None:
    options, errors = read(
        "receiver",
        max_connections=7,
        head_timeout="2s",
        body_timeout="1500ms",
        idle_timeout="4s",
        retry_after="1500ms",
    )
    found = _limits(options)
    assert errors == []
    assert (found.connections, found.retry_seconds) == (7, 2)
    times = [found.seconds(name) for name in ("head_seconds", "body_seconds", "idle_seconds")]
    assert times == [2.0, 1.5, 4.0]
