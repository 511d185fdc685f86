"""``quiver subscriber resume``: deliver to a paused subscriber again."""

from __future__ import annotations

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb

__all__ = ["resume"]


@verb(
    "resume",
    examples=(("quiver subscriber resume store uploader", "it goes on where it was"),),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@config_options
def resume(output: Output, *, folder: str, name: str) -> None:
    """Deliver to a paused subscriber again.

    It goes on with the first bundle that it has not acked.
    """
    from quiver.cli.subscribers.desk import change, held_by, open_cores

    with open_cores(output, folder, call=f"store.resume({name!r})") as stores:
        known = held_by(stores, name)
        change(output, known, lambda store: store.resume(name), name=name, done="is not paused")
