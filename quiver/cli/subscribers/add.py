"""``quiver subscriber add``: register a subscriber."""

from __future__ import annotations

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import check_start, start_option
from quiver.errors import SubscriberError

__all__ = ["add"]


@verb(
    "add",
    examples=(
        ("quiver subscriber add store uploader", "all that is there"),
        ("quiver subscriber add store uploader --start latest", "what is appended from now on"),
        ("quiver subscriber add store uploader --start 2026-01-31", "from that day on"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@start_option("What it gets first")
@config_options
def add(output: Output, *, folder: str, name: str, start: str) -> None:
    """Register a subscriber.

    From now on nothing is deleted before it has acked it. The number of a segment is looked for in
    each core.
    """
    from quiver.cli.subscribers.desk import change, open_cores
    from quiver.subscriber import check_name

    check_name(name)
    check_start(start)
    call = f"store.subscribe({name!r}, start={start!r})"
    with open_cores(output, folder, call=call) as stores:
        new = {n: s for n, s in stores.items() if name not in s.info().subscribers}
        if not new:
            raise SubscriberError(
                f"there is a subscriber {name!r} already",
                hint="quiver subscriber reset lets it start over",
            )
        done = f"is registered from {start} on"
        change(output, new, lambda s: s.subscribe(name, start=start).close(), name=name, done=done)
