"""``quiver chain gc``: purge blocks of which all subscribers have everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options, open_place
from quiver.cli.output import Output
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions

__all__ = ["gc"]


@verb(
    "gc",
    examples=(
        ("quiver chain gc --metadata /mnt/meta", "of all partitions"),
        ("quiver chain gc core_0 --metadata quiver://n1:7201", "of one, by way of a node"),
    ),
)
@click.argument("names", metavar="[PARTITION]...", nargs=-1)
@chain_options
def gc(
    output: Output,
    *,
    names: tuple[str, ...],
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Purge blocks of which all subscribers have everything.

    Nothing of a chain is ever purged by itself. This asks every subscriber whose marks are on the
    nodes, and lets go of the blocks before the first one that any of them needs; a dead letter is
    needed until it is forgotten. A partition that nobody subscribed to is left alone. Mirrors are
    not asked: they have copies of their own, and what they have not read yet they cannot get then.
    """
    from quiver.chain.cluster import Cluster

    with Cluster(open_place(place, options, wire=wire), options=wire) as cluster:
        done = cluster.purge_acked(names)
    if output.as_json:
        output.document({"partitions": [each._asdict() for each in done]})
        return
    columns = ["partition", "block_count", "below", "held_by"]
    rows = [[getattr(each, name) for name in columns] for each in done]
    titles = ["partition", "blocks purged", "below", "the next is needed by"]
    output.table("purged", titles, rows, empty="nobody subscribed to any of them")
