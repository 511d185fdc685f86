"""``quiver subscriber reset``: let a subscriber start over."""

from __future__ import annotations

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import check_start, start_option, yes_option

__all__ = ["reset"]


@verb(
    "reset",
    examples=(
        ("quiver subscriber reset store uploader", "all that is there"),
        ("quiver subscriber reset store uploader --start latest", "forget the backlog"),
        ("quiver subscriber reset store uploader --start 2026-01-31", "from that day on"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@start_option("Where it starts over")
@yes_option
@config_options
def reset(output: Output, *, folder: str, name: str, start: str, yes: bool) -> None:
    """Let a subscriber start over.

    What it did is forgotten, and what is deleted does not come back: says first how much only it
    still needed of what lies before, and asks if that is anything. One that is paused stays so. A
    process that takes bundles under this name is told so.
    """
    from quiver.cli.subscribers.desk import change, held_by, open_cores, see_freed

    check_start(start)
    call = f"store.reset({name!r}, start={start!r})"
    freed = see_freed(output, folder, name, start=start, call=call, find=held_by, yes=yes)
    with open_cores(output, folder, call=call) as stores:
        change(
            output,
            held_by(stores, name),
            lambda store: store.reset(name, start=start),
            name=name,
            done=f"starts over at {start}",
            freed=freed,
        )
