"""``quiver subscriber add``: register a subscriber."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import check_start, start_option, yes_option
from quiver.errors import SubscriberError

if TYPE_CHECKING:
    from quiver.engine import Store

__all__ = ["add"]


@verb(
    "add",
    examples=(
        ("quiver subscriber add store uploader", "all that is there"),
        ("quiver subscriber add store uploader --start latest", "what is appended from now on"),
        ("quiver subscriber add store uploader --start 2026-01-31 --yes", "from that day on"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@start_option("What it gets first")
@yes_option
@config_options
def add(output: Output, *, folder: str, name: str, start: str, yes: bool) -> None:
    """Register a subscriber.

    From now on nothing is deleted before it has acked it. What lies before its start is deleted if
    nobody else needs it: says first how much that is, and asks if it is anything. The number of a
    segment is looked for in each core.
    """
    from quiver.cli.subscribers.desk import change, open_cores, see_freed
    from quiver.subscriber import check_name

    check_name(name)
    check_start(start)
    call = f"store.subscribe({name!r}, start={start!r})"
    freed = see_freed(output, folder, name, start=start, call=call, find=_without, yes=yes)
    with open_cores(output, folder, call=call) as stores:
        change(
            output,
            _without(stores, name),
            lambda store: store.subscribe(name, start=start).close(),
            name=name,
            done=f"is registered from {start} on",
            freed=freed,
        )


def _without(stores: Mapping[int, Store], name: str) -> dict[int, Store]:
    """Give the cores in which there is no such subscriber; SubscriberError if that is none."""
    new = {core: s for core, s in stores.items() if name not in s.info().subscribers}
    if not new:
        raise SubscriberError(
            f"there is a subscriber {name!r} already",
            hint="quiver subscriber reset lets it start over",
        )
    return new
