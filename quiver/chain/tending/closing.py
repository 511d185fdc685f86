"""Ends the open block of a partition that nobody writes any more: the acts of a roll, in a row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from quiver.chain.peers import BlockName, Peers, promised
from quiver.chain.record import Partition, Record, claimed, committed
from quiver.chain.rolling import (
    Act,
    Answered,
    Claimed,
    ClaimNow,
    CommitNow,
    Committed,
    CutNow,
    Event,
    FenceNow,
    RollRules,
    TimeUp,
    begin,
    step,
)
from quiver.errors import LockedError, QuiverError, RemoteError

__all__ = ["is_same", "seal_open"]


def is_same(one: Record, other: Record) -> bool:
    """Whether nobody claimed or ended the open block between these two."""
    return (one.epoch, one.sealing_by, one.open) == (other.epoch, other.sealing_by, other.open)


def seal_open(partition: Partition, seen: Record, *, by: str, peers: Peers) -> Record:
    """End the open block where the locations that answer have it, and open none.

    ``by`` is a name that nobody else ever has. Raises LockedError if the partition is not as it was
    ``seen``, and RemoteError if no location answers: the claim stays then.
    """
    roll, acts = begin(RollRules(by), seen)
    roll = replace(roll, is_closing=True)
    waiting: deque[Act] = deque(acts)
    while waiting:
        for event in _done(waiting.popleft(), partition, seen, peers=peers):
            roll, more = step(roll, event)
            waiting.extend(more)
    return roll.record


def _done(act: Act, partition: Partition, seen: Record, *, peers: Peers) -> Iterator[Event]:
    match act:
        case ClaimNow(by):
            yield Claimed(partition.change(partial(_claimed, seen, by)))
        case FenceNow():
            yield from _fenced(act, partition.name, peers)
            yield TimeUp()
        case CommitNow(claim, sealed, following):
            yield Committed(
                partition.change(lambda now: committed(now, claim, sealed, following=following))
            )
        case CutNow(number, sealed):
            for location in sealed.keep:
                with suppress(QuiverError):  # A pass over the partition does it again.
                    block, peer = BlockName(partition.name, number), peers(location)
                    peer.cut(block, sealed) if sealed.length else peer.drop(block)


def _claimed(seen: Record, by: str, record: Record) -> Record:
    if not is_same(seen, record):
        raise LockedError("somebody wrote to the partition, or ended its block, meanwhile")
    return claimed(record, by, takes_over=True)


def _fenced(act: FenceNow, name: str, peers: Peers) -> Iterator[Event]:
    """Ask all locations; raises RemoteError if none promises, since nothing can be decided then."""
    errors = []
    for location in act.locations:
        try:
            answer = promised(
                peers(location), location, block=BlockName(name, act.number), epoch=act.epoch
            )
        except QuiverError as error:
            errors.append(error)
        else:
            yield Answered(act.epoch, answer)
    if len(errors) == len(act.locations):
        said = "; ".join(map(str, errors))
        raise RemoteError(
            f"no location of block {act.number} of {name} promises: {said}",
            path=name,
            retryable=True,
        )
