"""``quiver chain reset``: have a subscriber of a chain begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quiver.cli.chains.desk import chain_options
from quiver.cli.chains.subscribers import change
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import ask, check_start, yes_option

if TYPE_CHECKING:
    from quiver.chain.wire import WireOptions

__all__ = ["reset"]


@verb(
    "reset",
    examples=(
        ("quiver chain reset report --yes --metadata /mnt/meta", "all that is still there"),
        ("quiver chain reset report --start latest --metadata /mnt/meta", "what comes; asks"),
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="Where it begins: earliest, latest, or a time (ISO 8601, UTC).",
)
@yes_option
@chain_options
def reset(
    output: Output,
    *,
    name: str,
    start: str,
    yes: bool,
    place: str,
    options: tuple[str, ...],
    wire: WireOptions,
) -> None:
    """Have a subscriber of a chain begin anew.

    What it acked comes again as far as it is still there, its dead letters are forgotten, and what
    lies before the start is kept for it no longer. A process that has the name is fenced.
    """
    check_start(start)
    told = f"{name} forgets what it acked and its dead letters, and begins at {start}."
    change(
        output,
        lambda cluster: cluster.reset(name, start),
        name=name,
        asked=lambda: ask(output, told, f"Start {name} over?", yes=yes),
        done=f"begins anew at {start}",
        place=place,
        options=options,
        wire=wire,
    )
