"""``quiver chain pause``: deliver nothing to a subscriber of a chain for now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options
from quiver.cli.chains.subscribers import change
from quiver.cli.output import Output
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions

__all__ = ["pause"]


@verb(
    "pause",
    examples=(("quiver chain pause report --metadata /mnt/meta", "nothing comes to it now"),),
)
@click.argument("name", metavar="NAME")
@chain_options
def pause(
    output: Output, *, name: str, place: str, options: tuple[str, ...], wire: WireOptions
) -> None:
    """Deliver nothing to a subscriber of a chain for now.

    It stays so until "quiver chain resume", and what it has not had is kept for it. A process that
    has the name is fenced: its next outcome fails, and when it subscribes again nothing comes.
    """
    change(
        output,
        lambda cluster: cluster.pause(name),
        name=name,
        done="is paused",
        place=place,
        options=options,
        wire=wire,
    )
