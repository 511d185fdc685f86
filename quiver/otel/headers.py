"""Names of headers that exporters write themselves, or gRPC does: nobody else may set them."""

from __future__ import annotations

from typing import Final

__all__ = ["is_reserved"]

_OURS: Final = frozenset(
    ("connection", "content-encoding", "content-length", "content-type", "host", "te")
) | {"transfer-encoding"}


def is_reserved(name: str) -> bool:
    """Whether a header of this name is not for anybody to set."""
    lower = name.lower()
    return lower.startswith("grpc-") or lower.endswith("-bin") or lower in _OURS
