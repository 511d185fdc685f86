"""The nodes of a chain, as whoever tends it asks for them."""

from __future__ import annotations

from typing import Protocol

from quiver.chain.peers import Peer
from quiver.chain.placing import Node

__all__ = ["Nodes"]


class Nodes(Protocol):
    """The nodes that there are; ``membership.Members`` are such."""

    def __call__(self, name: str) -> Peer:
        """Give a node by its name."""
        ...

    def nodes(self) -> list[Node]:
        """Give those on which blocks are placed."""
        ...

    def gone_since(self) -> dict[str, int]:
        """Give those that do not serve, with the monotonic time since when."""
        ...

    def leaving(self) -> frozenset[str]:
        """Give those that answer yet, and are to be left."""
        ...
