"""Sizes and durations as people write them."""

from __future__ import annotations

import pytest

from quiver.errors import ConfigError
from quiver.units import format_bytes, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    "text, wanted",
    [
        (0, 0),
        (4096, 4096),
        ("17", 17),
        ("1b", 1),
        ("32MB", 32_000_000),
        ("32mb", 32_000_000),
        (" 4 GiB ", 4 << 30),
        ("1.5kB", 1500),
        ("0.5MiB", 1 << 19),
        ("2TB", 2 * 10**12),
        ("9007199254740993", 9_007_199_254_740_993),
        ("8TiB", 8 << 40),
        (10**400, 10**400),
    ],
)
def test_a_size_is_read(text, wanted: int) -> None:
    assert parse_bytes(text) == wanted


@pytest.mark.parametrize(
    "text, wanted",
    [
        (5, 5_000_000_000),
        (0.25, 250_000_000),
        ("3", 3_000_000_000),
        ("7ns", 7),
        ("25ms", 25_000_000),
        ("1.5s", 1_500_000_000),
        ("2m", 120_000_000_000),
        ("72h", 259_200_000_000_000),
        ("30D", 2_592_000_000_000_000),
        ("10us", 10_000),
    ],
)
def test_a_duration_is_read(text, wanted: int) -> None:
    assert parse_duration(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MB",
        "-1MB",
        "1 2MB",
        "1e3",
        "1,5MB",
        "1.MB",
        ".5MB",
        "1MBps",
        "0x10",
        "٣MB",
        "9" * 5000,
        "1" * 30 + "MB",
        -1,
        float("nan"),
        float("inf"),
        True,
        None,
        b"1MB",
        [],
    ],
    ids=repr,
)
def test_what_is_no_size_or_duration_is_refused_with_its_key(text) -> None:
    with pytest.raises(ConfigError, match=r"wal\.max_size: "):
        parse_bytes(text, key="wal.max_size")
    with pytest.raises(ConfigError, match=r"wal\.flush: "):
        parse_duration(text, key="wal.flush")


def test_a_wrong_unit_names_the_right_ones() -> None:
    with pytest.raises(ConfigError, match="units: b, kb, mb, gb, tb, kib, mib, gib, tib"):
        parse_bytes("1 parsec")


@pytest.mark.parametrize(
    "count, wanted",
    [
        (0, "0B"),
        (999, "999B"),
        (1000, "1kB"),
        (33_554_432, "33.6MB"),
        (5 * 10**9, "5GB"),
        (-2_000_000, "-2MB"),
        (7 * 10**15, "7000TB"),
    ],
)
def test_a_size_is_written(count: int, wanted: str) -> None:
    assert format_bytes(count) == wanted


@pytest.mark.parametrize(
    "nanoseconds, wanted",
    [
        (0, "0ns"),
        (25_000_000, "25ms"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1.5m"),
        (1_500, "1.5us"),
        (86_400_000_000_000, "1d"),
    ],
)
def test_a_duration_is_written(nanoseconds: int, wanted: str) -> None:
    assert format_duration(nanoseconds) == wanted
