"""What is asked of a node and answered, beyond the values that ``peers`` has. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from quiver.chain.peers.values import BlockName, Damaged, Finished, Route, Status
from quiver.chain.sealing import Answer, Sealed

__all__ = [
    "Acks",
    "Append",
    "Condemn",
    "Condemned",
    "Cut",
    "DamagedAsked",
    "Damages",
    "Done",
    "Drop",
    "DropCondemned",
    "Fence",
    "Fetch",
    "Finish",
    "Found",
    "Frame",
    "FrameKind",
    "Keys",
    "Message",
    "MetaCas",
    "MetaDelete",
    "MetaGet",
    "MetaKeys",
    "Opened",
    "Opening",
    "Prepare",
    "Put",
    "Read",
    "Segment",
    "Settle",
    "StatusAsked",
    "StatusBehind",
    "TailAcks",
    "Verify",
]


class FrameKind(IntEnum):
    """What a frame of a stream is."""

    ENTRIES = 1
    HEARTBEAT = 2
    ACK = 3
    ERROR = 4
    NEXT = 5
    """Entries whose loader had heard from the last node that all before them is safe.

    A node passes them on before it has synced them, and says ``SURE`` when it has.
    """
    SURE = 6
    """How much whoever sends it, and all before it, have synced."""


class Frame(NamedTuple):
    """What stands before the body of a frame."""

    kind: FrameKind
    number: int
    """Of the block."""
    epoch: int = 0
    offset: int = 0
    """Where the first byte belongs; of an ack, and of ``SURE``, how much there is; of a heartbeat
    that goes back, one more than how much has come, 0 while it is worked on."""
    last_seq: int = -1
    body_len: int = 0
    body_crc: int = 0


class Opening(NamedTuple):
    """Opens the stream of a block."""

    route: Route


class Opened(NamedTuple):
    """The stream that was opened, by a name that no other has on any node, ever."""

    stream: str


class Append(NamedTuple):
    """Sends entries down a stream."""

    stream: str


class Acks(NamedTuple):
    """Reads what comes back on a stream."""

    stream: str


class TailAcks(NamedTuple):
    """Reads at the tail of an open block what all of its locations have."""

    block: BlockName
    epoch: int


class Read(NamedTuple):
    """Reads entries of a block from an offset on."""

    block: BlockName
    offset: int
    live: bool


class Segment(NamedTuple):
    """Reads a finished segment."""

    block: BlockName


class Prepare(NamedTuple):
    """Makes room for a block."""

    route: Route
    layout: str


class Fence(NamedTuple):
    """Lets no smaller epoch in."""

    block: BlockName
    epoch: int


class Cut(NamedTuple):
    """Cuts a copy to where its block ends."""

    block: BlockName
    sealed: Sealed


class Finish(NamedTuple):
    """Makes the segment of a block."""

    block: BlockName


class Settle(NamedTuple):
    """Lets go of a log."""

    block: BlockName
    finished: Finished


class Fetch(NamedTuple):
    """Copies a segment from another node."""

    block: BlockName
    source: str
    finished: Finished


class Drop(NamedTuple):
    """Deletes what there is of a block."""

    block: BlockName


class Condemn(NamedTuple):
    """Asks with what a copy can be dropped as long as nobody wants it again."""

    block: BlockName


class Condemned(NamedTuple):
    """What it can be dropped with."""

    token: int


class DropCondemned(NamedTuple):
    """Deletes a copy unless somebody wanted it since it was condemned."""

    block: BlockName
    token: int


class Verify(NamedTuple):
    """Reads a finished segment anew."""

    block: BlockName


class DamagedAsked(NamedTuple):
    """Asks which copies are damaged."""


class Damages(NamedTuple):
    """Copies that are damaged."""

    copies: tuple[Damaged, ...]


class StatusAsked(NamedTuple):
    """Asks what there is."""


class StatusBehind(NamedTuple):
    """Asks what there is behind a block, in order of name: the answer before was full."""

    block: BlockName


class Done(NamedTuple):
    """Says that it is done."""


class MetaGet(NamedTuple):
    """Reads an object of the metadata."""

    key: str


class MetaCas(NamedTuple):
    """Swaps an object of the metadata; an empty revision: if there is none."""

    key: str
    revision: str
    data: bytes


class MetaKeys(NamedTuple):
    """Lists keys of the metadata."""

    prefix: str


class MetaDelete(NamedTuple):
    """Deletes an object of the metadata."""

    key: str


class Found(NamedTuple):
    """An object of the metadata."""

    data: bytes
    revision: str


class Put(NamedTuple):
    """The revision of what was put."""

    revision: str


class Keys(NamedTuple):
    """Keys that were listed."""

    keys: tuple[str, ...]


Message: TypeAlias = (
    Opening
    | Opened
    | Append
    | Acks
    | TailAcks
    | Read
    | Segment
    | Prepare
    | Fence
    | Cut
    | Finish
    | Settle
    | Fetch
    | Drop
    | Condemn
    | Condemned
    | DropCondemned
    | Verify
    | DamagedAsked
    | Damages
    | StatusAsked
    | StatusBehind
    | Done
    | MetaGet
    | MetaCas
    | MetaKeys
    | MetaDelete
    | Found
    | Put
    | Keys
    | Answer
    | Finished
    | Status
)
