"""Packages that only some need: what is said when one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needed"]


@contextmanager
def needed(package: str, *, extra: str) -> Iterator[None]:
    """Say which extra brings a package if an import in the block does not find it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"this needs the package {package!r}: pip install 'quiver-store[{extra}]'",
            name=error.name,
        ) from error
