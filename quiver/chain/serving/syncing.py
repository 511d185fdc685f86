"""What became of a node's blocks while it was away: the records say it, and it is done here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from quiver.chain.metadata import Metadata
from quiver.chain.peers import Holding, Peer
from quiver.chain.record import Block, Partition, Record
from quiver.chain.sealing import Sealed
from quiver.clock import Clock
from quiver.errors import MissingError, QuiverError

__all__ = ["sync_with_records"]

_TOLD_MAX: Final = 100


def _never() -> bool:
    return False


def sync_with_records(
    node: Peer, metadata: Metadata, clock: Clock, *, is_over: Callable[[], bool] = _never
) -> list[QuiverError]:
    """Cut what was sealed, and drop what is purged, damaged or not, or was never used.

    Gives what could not be done; the same may be done again. What is open, or is only prepared, is
    left alone, and so is a partition that has no record, or a block that was given up. A segment,
    and a log that was sealed without this node, are left to whoever tends the partition: the one
    may have been copied here a moment ago, to be listed, and the other be the last that there is.
    """
    faults: list[QuiverError] = []
    holdings: Iterable[Holding] = node.status().holdings
    damaged = [each.name for each in node.damaged()]
    held = {
        name: list(blocks)
        for name, blocks in groupby(holdings, key=lambda each: each.name.partition)
    }
    for name in sorted({*held, *(each.partition for each in damaged)}):
        if is_over():  # Each may wait for metadata that are away.
            break
        partition = Partition(metadata, name, clock=clock)
        try:
            record = partition.read()
        except MissingError:
            continue
        except QuiverError as error:
            faults.append(error)
            continue
        for holding in held.get(name, []):
            try:
                _sync_block(node, holding, partition, record=record)
            except QuiverError as error:
                faults.append(error)
        for block in damaged:
            if block.partition == name and block.number < record.purged_below:
                try:
                    node.drop(block)
                except QuiverError as error:
                    faults.append(error)
    return faults[:_TOLD_MAX]


def _sync_block(node: Peer, holding: Holding, partition: Partition, *, record: Record) -> None:
    number = holding.name.number
    if number < record.purged_below:
        node.drop(holding.name)
        return
    is_open = record.open is not None and record.open.number == number
    if is_open or number >= record.next_number or holding.finished is not None:
        return
    try:
        block = partition.block(record, number)
    except MissingError:
        node.drop(holding.name)  # It ended empty, or was never used.
        return
    if block.is_abandoned:
        return
    if node.name in block.locations:
        node.cut(holding.name, _sealed(block))
    # What was sealed without this node may be all that is left one day: whoever repairs has it
    # dropped once all copies that are listed are there.


def _sealed(block: Block) -> Sealed:
    """Say where a block ends."""
    return Sealed(block.length, block.last_seq, block.start, block.end, block.locations)
