"""Damage is named with the object that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quiver.errors import DamageError

__all__ = ["placed"]


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Name ``place`` in damage that is met inside, unless it has a place already."""
    try:
        yield
    except DamageError as error:
        if error.path:
            raise
        raise error.at(place) from error
