"""What a node answers to calls that move no data, and metadata for clients that cannot reach it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import Final

from quiver.chain.metadata import Metadata
from quiver.chain.peers import Damaged, Peer
from quiver.chain.wire.format import HOLDINGS_MAX
from quiver.chain.wire.messages import (
    Condemn,
    Condemned,
    Cut,
    DamagedAsked,
    Damages,
    Done,
    Drop,
    DropCondemned,
    Fence,
    Fetch,
    Finish,
    Found,
    Keys,
    Message,
    MetaCas,
    MetaDelete,
    MetaGet,
    MetaKeys,
    Prepare,
    Put,
    Settle,
    StatusAsked,
    StatusBehind,
    Verify,
)
from quiver.errors import InputError

__all__ = ["Desk"]

_DAMAGED_MAX: Final = 1000
_WHY_MAX: Final = 400


class Desk:
    """Answers calls. Safe for many threads, as the peer and the metadata are."""

    def __init__(self, peer: Peer, metadata: Metadata | None) -> None:
        self._peer = peer
        self._metadata = metadata

    def answer(self, asked: Message) -> Message:
        """Do what is asked, and give the answer."""
        peer = self._peer
        match asked:
            case Prepare(route, layout):
                peer.prepare(route, layout)
            case Fence(block, epoch):
                return peer.fence(block, epoch)
            case Cut(block, sealed):
                peer.cut(block, sealed)
            case Finish(block):
                return peer.finish(block)
            case Settle(block, finished):
                peer.settle(block, finished)
            case Fetch(block, source, finished):
                peer.fetch(block, source, finished)
            case Condemn() | Drop() | DropCondemned() | Verify() | DamagedAsked():
                return self._cared(asked)
            case StatusAsked() | StatusBehind():
                return self._status(asked)
            case MetaGet() | MetaCas() | MetaKeys() | MetaDelete():
                return self._metadata_answer(asked)
            case _:
                raise InputError(f"{type(asked).__name__} is nothing that can be asked")
        return Done()

    def _status(self, asked: StatusAsked | StatusBehind) -> Message:
        """Say what there is, as much as one answer takes."""
        found = self._peer.status()
        begin = 0
        if isinstance(asked, StatusBehind):
            begin = bisect_right(found.holdings, asked.block, key=lambda held: held.name)
        return found._replace(holdings=found.holdings[begin : begin + HOLDINGS_MAX])

    def _cared(self, asked: Condemn | Drop | DropCondemned | Verify | DamagedAsked) -> Message:
        """Answer what whoever looks after copies asks."""
        match asked:
            case Condemn(block):
                return Condemned(self._peer.condemn(block))
            case DropCondemned(block, token):
                self._peer.drop(block, token)
            case Drop(block):
                self._peer.drop(block)
            case Verify(block):
                return self._peer.verify(block)
            case DamagedAsked():
                return Damages(tuple(map(_shortened, islice(self._peer.damaged(), _DAMAGED_MAX))))
        return Done()

    def _metadata_answer(self, asked: MetaGet | MetaCas | MetaKeys | MetaDelete) -> Message:
        metadata = self._metadata
        if metadata is None:
            raise InputError(f"{self._peer.name} passes no metadata on")
        match asked:
            case MetaGet(key):
                kept = metadata.get(key)
                return Found(kept.data, kept.revision)
            case MetaCas(key, revision, data):
                return Put(metadata.cas(key, revision or None, data))
            case MetaKeys(prefix):
                return Keys(tuple(metadata.keys(prefix)))
            case MetaDelete(key):
                metadata.delete(key)
        return Done()


def _shortened(damaged: Damaged) -> Damaged:
    return damaged._replace(why=damaged.why.encode("ascii", "replace").decode()[:_WHY_MAX])
