"""Sizes and durations as people write them: ``32MB``, ``4GiB``, ``25ms``, ``72h``.

``MB`` is 10^6 bytes and ``MiB`` is 2^20; a bare number is bytes or seconds.
"""

from __future__ import annotations

import math
import re

from quiver.errors import ConfigError

__all__ = [
    "MILLISECOND",
    "SECOND",
    "exact_bytes",
    "exact_duration",
    "format_bytes",
    "format_duration",
    "parse_bytes",
    "parse_duration",
]

MILLISECOND = 1_000_000
SECOND = 1_000_000_000

_SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_EXACT_SIZES = (
    *(("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40)),
    *(("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12)),
)
_DURATIONS = {
    "ns": 1,
    "us": 1_000,
    "ms": MILLISECOND,
    "": SECOND,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86_400 * SECOND,
}
_QUANTITY = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-zA-Z]*)\s*")


def parse_bytes(value: int | str, *, key: str = "size") -> int:
    """Read a size in bytes from ``"32MB"``, ``"4 GiB"`` or a whole number of bytes."""
    wanted = "a size such as 32MB or 4GiB"
    return _parse(value, _SIZES, key=key, wanted=wanted, bare_factor=1)


def parse_duration(value: float | str, *, key: str = "duration") -> int:
    """Read a duration in nanoseconds from ``"25ms"``, ``"72h"`` or a number of seconds."""
    wanted = "a duration such as 25ms or 72h"
    return _parse(value, _DURATIONS, key=key, wanted=wanted, bare_factor=SECOND)


def _parse(
    value: float | str, factors: dict[str, int], *, key: str, wanted: str, bare_factor: int
) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ConfigError(f"{key}: {value!r:.100} is not {wanted}")
    if not isinstance(value, str):
        if value < 0 or (isinstance(value, float) and not math.isfinite(value * bare_factor)):
            raise ConfigError(f"{key}: {value!r:.100} is not {wanted}")
        return round(value * bare_factor)
    match = _QUANTITY.fullmatch(value)
    factor = factors.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ConfigError(
            f"{key}: {value!r:.100} is not {wanted}", hint=f"units: {_spell(factors)}"
        )
    whole, _, fraction = match[1].partition(".")
    exact = int(whole) * factor
    return exact + (round(float(f"0.{fraction}") * factor) if fraction else 0)


def _spell(factors: dict[str, int]) -> str:
    return ", ".join(unit for unit in factors if unit)


def format_bytes(count: int) -> str:
    """Write a size with its largest decimal unit: ``33554432`` gives ``33.6MB``."""
    return _format(count, (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)), "B")


def format_duration(nanoseconds: int) -> str:
    """Write a duration with its largest unit: ``25000000`` gives ``25ms``."""
    units = (("d", 86_400 * SECOND), ("h", 3600 * SECOND), ("m", 60 * SECOND), ("s", SECOND))
    return _format(nanoseconds, (*units, ("ms", MILLISECOND), ("us", 1_000)), "ns")


def exact_bytes(count: int) -> str:
    """Write a size so that ``parse_bytes`` gives the same: ``33554432`` gives ``32MiB``."""
    return _exact(count, (*_EXACT_SIZES, ("B", 1)))


def exact_duration(nanoseconds: int) -> str:
    """Write a duration so that ``parse_duration`` gives the same: ``90 * SECOND`` gives ``90s``."""
    return _exact(nanoseconds, tuple((u, f) for u, f in _DURATIONS.items() if u))


def _exact(value: int, units: tuple[tuple[str, int], ...]) -> str:
    """Take the unit of which it is the fewest, and a whole number."""
    fitting = (each for each in units if value % each[1] == 0 and each[1] <= max(value, 1))
    unit, factor = max(fitting, key=lambda each: each[1])
    return f"{value // factor}{unit}"


def _format(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for unit, factor in units:
        if abs(value) >= factor:
            return f"{value / factor:.1f}".removesuffix(".0") + unit
    return f"{value}{smallest}"
