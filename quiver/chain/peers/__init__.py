"""What nodes of a chain, loaders and cursors ask of a node, whatever lies between them."""

from __future__ import annotations

from quiver.chain.peers.layout import decode_layout, encode_layout
from quiver.chain.peers.memory import arrows_own, without_frames
from quiver.chain.peers.peer import Peer, Peers, Stream, Tell
from quiver.chain.peers.promise import promised
from quiver.chain.peers.silent import SilentError
from quiver.chain.peers.stopped import as_fault, tell_stopped
from quiver.chain.peers.values import (
    Ack,
    BlockName,
    Damaged,
    Entries,
    Finished,
    Holding,
    NodeState,
    Route,
    Status,
)

__all__ = [
    "Ack",
    "BlockName",
    "Damaged",
    "Entries",
    "Finished",
    "Holding",
    "NodeState",
    "Peer",
    "Peers",
    "Route",
    "SilentError",
    "Status",
    "Stream",
    "Tell",
    "arrows_own",
    "as_fault",
    "decode_layout",
    "encode_layout",
    "promised",
    "tell_stopped",
    "without_frames",
]
