"""``quiver chain rename``: give a subscriber of a chain another name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options
from quiver.cli.chains.subscribers import change
from quiver.cli.output import Output
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions

__all__ = ["rename"]


@verb(
    "rename",
    examples=(("quiver chain rename report daily --metadata /mnt/meta", "its marks go along"),),
)
@click.argument("name", metavar="NAME")
@click.argument("new_name", metavar="NEW")
@chain_options
def rename(
    output: Output,
    *,
    name: str,
    new_name: str,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Give a subscriber of a chain another name, under which it goes on.

    A process that has the old name is fenced. If this is broken off, do it again: for a moment the
    marks are there under both names, and both keep what they need.
    """
    change(
        output,
        lambda cluster: cluster.rename(name, new_name),
        name=name,
        new_name=new_name,
        done=f"is {new_name} now",
        place=place,
        options=options,
        wire=wire,
    )
