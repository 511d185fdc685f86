"""Keys of objects, checked before they reach a store, and what is put under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from quiver.disk import Bytes
from quiver.errors import InputError

__all__ = ["KEY_BYTES_MAX", "check_base", "full_key", "parts_of", "pieces_of"]

KEY_BYTES_MAX: Final = 1024
"""Of a whole key in UTF-8; no store that we know takes more."""

_SPACE: Final = 0x20
_DELETE: Final = 0x7F


def full_key(base: str, key: str) -> str:
    """Name an object from the root of its store; raises InputError for what is no key."""
    full = key[1:] if key.startswith("/") else base + key
    if fault := _fault(full):
        raise InputError(f"{key!r} is no key of an object: {fault}", hint="a key is like a/b.batch")
    return full


def check_base(path: str) -> str:
    """Give the base of a bucket that is opened at ``path``; raises InputError."""
    path = path.strip("/")
    if not path:
        return ""
    if fault := _fault(path):
        raise InputError(f"{path!r} is no path in a store: {fault}", hint="a path is like a/b")
    return path + "/"


def _fault(path: str) -> str:
    """Say what is wrong with a path; "" if nothing is."""
    names = path.split("/")
    if "" in names:
        return "a name in it is empty"
    if "." in names or ".." in names:
        return "it has . or .. in it"
    if "\\" in path:  # Obstore takes it for a slash.
        return "it has a backslash in it"
    if any(ord(letter) < _SPACE or ord(letter) == _DELETE for letter in path):
        return "it has a control character in it"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not Unicode text"
    return f"it is longer than {KEY_BYTES_MAX:,} bytes" if size > KEY_BYTES_MAX else ""


def parts_of(data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> list[memoryview]:
    """View what is to be put as bytes: one object, or its parts, which an iterator makes now."""
    if isinstance(data, Iterator):
        return list(pieces_of(data))
    parts = cast("Sequence[Bytes]", data if isinstance(data, (list, tuple)) else [data])
    return list(pieces_of(iter(parts)))


def pieces_of(parts: Iterator[Bytes]) -> Iterator[memoryview]:
    """View each part as bytes when it is its turn."""
    return (memoryview(part).cast("B") for part in parts)
