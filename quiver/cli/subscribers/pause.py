"""``quiver subscriber pause``: deliver nothing to a subscriber for now."""

from __future__ import annotations

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb

__all__ = ["pause"]


@verb(
    "pause",
    examples=(("quiver subscriber pause store uploader", "nothing is delivered from now on"),),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@config_options
def pause(output: Output, *, folder: str, name: str) -> None:
    """Deliver nothing to a subscriber for now.

    It stays so over restarts, until quiver subscriber resume. What it has not acked is kept.
    """
    from quiver.cli.subscribers.desk import change, held_by, open_cores

    with open_cores(output, folder, call=f"store.pause({name!r})") as stores:
        known = held_by(stores, name)
        change(output, known, lambda store: store.pause(name), name=name, done="is paused")
