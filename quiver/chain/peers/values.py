"""What goes between nodes, as values. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

__all__ = [
    "Ack",
    "BlockName",
    "Damaged",
    "Entries",
    "Finished",
    "Holding",
    "NodeState",
    "Route",
    "Status",
]


class BlockName(NamedTuple):
    """One block of one partition; no two ever have the same."""

    partition: str
    number: int


class Route(NamedTuple):
    """The way that the entries of a block take, and who asks for it."""

    block: BlockName
    epoch: int
    """In which the chain made room for it; its entries carry that. Each is one loader's alone."""
    chain: tuple[str, ...]
    """All locations, first to last. Two of one epoch may differ: one of them came to nothing."""
    sender: str = ""
    """The node that passes on; empty: a loader."""


class Entries(NamedTuple):
    """Whole entries of a log, one behind the other, exactly as each copy has them."""

    epoch: int
    offset: int
    """Where in the block the first byte belongs; a block begins at 0."""
    last_seq: int
    body: memoryview
    own: Any = None
    """The buffer that the body is, if that is memory of Arrow's own: it goes on without a copy."""
    message: Any = None
    """All that it came as, head and body, in memory of Arrow's own: it may go on as that."""
    has_heard: bool = False
    """Whether its loader had heard from the last node that all before it is safe; it is one entry.

    A node passes it on before it has synced it, and gives its word behind it (``Stream.assure``).
    """


class Ack(NamedTuple):
    """All locations from here to the tail have this much, synced; cumulative."""

    length: int
    last_seq: int


class Finished(NamedTuple):
    """The segment that was made of a sealed block."""

    rows: int
    digest: bytes
    """BLAKE3 of the file."""
    size: int


class Holding(NamedTuple):
    """What a node has of a block."""

    name: BlockName
    epoch: int
    length: int
    """Of its log; 0 if there is none any more."""
    finished: Finished | None
    """None: it is a log of entries yet."""


class Damaged(NamedTuple):
    """A copy from which nobody is served."""

    name: BlockName
    why: str


class NodeState(Enum):
    """How far a node is; clients are let in when it serves (R40)."""

    INITIALIZING = "initializing"
    SYNCING = "syncing"
    SERVING = "serving"
    DRAINING = "draining"


class Status(NamedTuple):
    """What a node says of itself."""

    name: str
    state: NodeState
    free_bytes: int
    total_bytes: int
    holdings: tuple[Holding, ...]
