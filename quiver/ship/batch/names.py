"""Names of objects: a ULID, which says when it was minted, and what the object is.

A ULID has 48 bits of milliseconds since 1970 and 80 random bits, as 26 characters of Crockford's
base 32 that sort by time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

__all__ = ["BATCH", "Entropy", "mint_name", "mint_ulid", "name_time_ms", "ulid_time_ms"]

Entropy: TypeAlias = Callable[[int], bytes]
"""Gives so many random bytes, as ``secrets.token_bytes`` does."""

BATCH: Final = ".batch"
"""How the name of a batch ends."""

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
_LETTERS: Final = 26
_RANDOM_BYTES: Final = 10
_RANDOM_BITS: Final = 8 * _RANDOM_BYTES
_TIME_MAX: Final = (1 << 48) - 1
_BITS_EACH: Final = 5
_NS: Final = 1_000_000


def mint_ulid(wall_ns: int, entropy: Entropy) -> str:
    """Make a ULID for a time; one that has no place in it becomes the nearest that has."""
    time_ms = min(max(wall_ns // _NS, 0), _TIME_MAX)
    number = time_ms << _RANDOM_BITS | int.from_bytes(entropy(_RANDOM_BYTES), "big")
    shifts = range((_LETTERS - 1) * _BITS_EACH, -1, -_BITS_EACH)
    return "".join(_ALPHABET[number >> shift & 31] for shift in shifts)


def ulid_time_ms(text: str) -> int | None:
    """Say when a ULID was minted, in milliseconds since 1970; None if it is none."""
    if len(text) != _LETTERS or text[0] > "7":
        return None
    number = 0
    for letter in text:
        value = _VALUES.get(letter)
        if value is None:
            return None
        number = number << _BITS_EACH | value
    return number >> _RANDOM_BITS


def mint_name(wall_ns: int, entropy: Entropy, *, ending: str = BATCH) -> str:
    """Make the name of a new object."""
    return mint_ulid(wall_ns, entropy) + ending


def name_time_ms(name: str, *, ending: str = BATCH) -> int | None:
    """Say when a name was minted; None if it is none of ours: a ULID and the ending."""
    return ulid_time_ms(name.removesuffix(ending)) if name.endswith(ending) else None
