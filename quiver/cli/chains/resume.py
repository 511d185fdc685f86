"""``quiver chain resume``: deliver to a subscriber of a chain again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options
from quiver.cli.chains.subscribers import change
from quiver.cli.output import Output
from quiver.cli.program import verb

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions

__all__ = ["resume"]


@verb(
    "resume",
    examples=(("quiver chain resume report --metadata /mnt/meta", "it goes on"),),
)
@click.argument("name", metavar="NAME")
@chain_options
def resume(
    output: Output, *, name: str, place: str, options: tuple[str, ...], wire: WireOptions
) -> None:
    """Deliver to a subscriber of a chain again.

    A process that has the name and waits is fenced: it goes on when it subscribes again.
    """
    change(
        output,
        lambda cluster: cluster.resume(name),
        name=name,
        done="is delivered to again",
        place=place,
        options=options,
        wire=wire,
    )
