"""A node is asked for its promise, by the name that the record has for it."""

from __future__ import annotations

from quiver.chain.peers.peer import Peer
from quiver.chain.peers.values import BlockName
from quiver.chain.sealing import Answer
from quiver.errors import RemoteError

__all__ = ["promised"]


def promised(peer: Peer, location: str, *, block: BlockName, epoch: int) -> Answer:
    """Fence a location of a block; RemoteError if somebody else answers for it.

    As a node does that was begun where this one was before.
    """
    answer = peer.fence(block, epoch)
    if answer.location != location:
        raise RemoteError(
            f"{answer.location} answers where {location} should be",
            path=location,
            retryable=True,
            hint="it took the address of a node that is gone",
        )
    return answer
