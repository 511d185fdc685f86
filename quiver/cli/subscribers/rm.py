"""``quiver subscriber rm``: remove a subscriber for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quiver.cli.opening import config_options
from quiver.cli.output import Output, count
from quiver.cli.program import verb
from quiver.cli.subscribers.desk import yes_option
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.cli.standing import Standing

__all__ = ["rm"]


@verb(
    "rm",
    examples=(
        ("quiver subscriber rm store uploader", "says what may be deleted then, and asks"),
        ("quiver subscriber rm store uploader --yes", "for scripts"),
    ),
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
@yes_option
@config_options
def rm(output: Output, *, folder: str, name: str, yes: bool) -> None:
    """Remove a subscriber for good.

    What only it still needed is deleted, as long as there is another subscriber: while there is
    none, nothing is. Says first how much that is, then asks.
    """
    from quiver.cli.standing import read_store
    from quiver.cli.subscribers.desk import ask, held_by, open_cores

    call = f"store.unsubscribe({name!r})"
    with open_cores(output, folder, call=call) as stores:
        path = next(iter(stores.values())).path
        held_by(stores, name)
    everybody = read_store(folder, warn=output.warn)
    found = [standing for standing in everybody if standing.name == name]
    others = {standing.core for standing in everybody if standing.name != name}
    cores = [_fields(standing, is_last=standing.core not in others) for standing in found]
    ask(output, _told(name, cores), f"Remove the subscriber {name}?", yes=yes)
    with open_cores(output, folder, call=call) as stores:
        for store in held_by(stores, name).values():
            store.unsubscribe(name)
    if output.as_json:
        output.document({"path": path, "name": name, "cores": cores})
    else:
        output.text(f"{name} is removed")


def _fields(standing: Standing, *, is_last: bool) -> dict[str, Any]:
    from quiver.cli.subscribers.desk import freed_fields

    return {
        "core": standing.core,
        "subscriber_id": standing.subscriber_id,
        "open_bundle_count": standing.lag.bundle_count,
        "is_last": is_last,
        **freed_fields(None if is_last else standing.pinned),
    }


def _told(name: str, cores: list[dict[str, Any]]) -> str:
    """Say what becomes of the store without the subscriber."""
    opened = sum(core["open_bundle_count"] for core in cores)
    segments = sum(core["freed_segment_count"] for core in cores)
    text = f"{name} has {count(opened, 'open bundle')}. "
    if segments:
        bundles = count(sum(core["freed_bundle_count"] for core in cores), "bundle")
        freed = format_bytes(sum(core["freed_bytes"] for core in cores))
        text += f"Only it needs {count(segments, 'segment')} with {bundles}, {freed}: "
        return f"{text}they are deleted."
    if all(core["is_last"] for core in cores):
        return f"{text}Nobody else has subscribed: nothing is deleted until somebody does."
    return f"{text}Nothing is kept for it alone: nothing is deleted."
