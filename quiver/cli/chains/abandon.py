"""``quiver chain abandon``: give up an open block of which every copy is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options, open_place, refusals
from quiver.cli.output import Output
from quiver.cli.program import COUNT_MAX, verb
from quiver.cli.subscribers.desk import ask, yes_option

if TYPE_CHECKING:
    from quiver.chain.membership import Members
    from quiver.chain.peers import BlockName
    from quiver.chain.record import Open
    from quiver.chain.wire import WireOptions

__all__ = ["abandon"]


@verb(
    "abandon",
    examples=(
        ("quiver chain ls core_0 --last 1 --metadata /mnt/meta", "which block is open, and where"),
        ("quiver chain abandon core_0 17 --metadata /mnt/meta", "give it up; asks first"),
    ),
)
@click.argument("name", metavar="PARTITION")
@click.argument("number", type=click.IntRange(0, COUNT_MAX), metavar="NUMBER")
@yes_option
@chain_options
def abandon(
    output: Output,
    *,
    name: str,
    number: int,
    yes: bool,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Give up an open block of which every copy is lost.

    The partition waits for its machines until then, for nothing is ever given up by itself. What
    was in the block is lost, also what was acknowledged. The record keeps that it was given up; the
    next loader goes on behind it. A block that a node still has is refused, and so is one of which
    a node is up and does not answer here, or which is not as it was when this began.
    """
    from quiver.chain.membership import Members
    from quiver.chain.peers import BlockName
    from quiver.chain.record import Partition
    from quiver.chain.tending import abandon as give_up
    from quiver.clock import SystemClock
    from quiver.disk import fresh_name
    from quiver.errors import InputError

    metadata = open_place(place, options, wire=wire)
    partition = Partition(metadata, name, clock=SystemClock())
    seen = partition.read()
    opened = seen.open
    if opened is None or opened.number != number:
        said = f"block {opened.number} is" if opened else "none is"
        raise InputError(
            f"block {number} of {name} is not open: {said}", hint=f"quiver chain ls {name} --last 1"
        )
    members = Members(metadata, clock=SystemClock(), options=wire)
    block = BlockName(name, number)
    told = _check_lost(members, block, opened)
    ask(output, told, "Lose what was in it for good?", yes=yes)
    if not yes:  # Nodes may have come back while somebody thought about it.
        _check_lost(members, block, opened)
    record = give_up(partition, seen, by=fresh_name(), peers=members)
    fields = {
        "partition": name,
        "number": number,
        "locations": list(opened.locations),
        "epoch": record.epoch,
        "last_seq": record.last_seq,
    }
    if output.as_json:
        output.document(fields)
    else:
        output.text(f"block {number} of {name} is given up; it ends at bundle {record.last_seq:,}")


def _check_lost(members: Members, block: BlockName, opened: Open) -> str:
    """Say what became of its locations; raises InputError if one has it, or may have it."""
    from quiver.clock import SystemClock
    from quiver.errors import InputError, QuiverError

    up = refusals(members, opened.locations, SystemClock())
    said = []
    for location in opened.locations:
        if location in up:
            raise InputError(
                f"{location} is up, and does not answer here: {up[location]}",
                hint="it may have the block: look from where it is reached",
            )
        try:
            holdings = members(location).status().holdings
        except QuiverError:
            said.append(f"{location} is gone")
            continue
        if any(each.name == block for each in holdings):
            raise InputError(
                f"{location} has block {block.number} of {block.partition}",
                hint="it is sealed there by its loader, by the next one, or by the node itself",
            )
        said.append(f"{location} has nothing of it")
    return f"block {block.number} of {block.partition}: {', '.join(said)}"
