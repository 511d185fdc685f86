"""``quiver subscriber rename``: give a subscriber another name."""

from __future__ import annotations

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output
from quiver.cli.program import verb
from quiver.errors import SubscriberError

__all__ = ["rename"]


@verb(
    "rename",
    examples=(("quiver subscriber rename store uploader archive", "it goes on as archive"),),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@click.argument("new_name", metavar="NEW")
@config_options
def rename(output: Output, *, folder: str, name: str, new_name: str) -> None:
    """Give a subscriber another name.

    It goes on where it was. A process that takes bundles under the old name is told so.
    """
    from quiver.cli.subscribers.desk import change, held_by, open_cores
    from quiver.subscriber import check_name

    check_name(new_name)
    call = f"store.rename({name!r}, {new_name!r})"
    with open_cores(output, folder, call=call) as stores:
        known = held_by(stores, name)
        if any(new_name in store.info().subscribers for store in stores.values()):
            raise SubscriberError(
                f"there is a subscriber {new_name!r} already", hint="nothing was renamed"
            )
        change(
            output,
            known,
            lambda store: store.rename(name, new_name),
            name=new_name,
            done=f"was {name}",
        )
