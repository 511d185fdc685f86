"""How verbs that change subscribers open a store: all of its cores, or none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.opening import open_store
from quiver.cli.output import Output, count

if TYPE_CHECKING:
    from quiver.engine import Store

__all__ = ["change", "check_start", "held_by", "open_cores", "start_option"]

_SHOWN = {"subscriber_id": "id", "open_bundle_count": "open", "is_paused": "paused"}


def start_option(text: str) -> Callable[[Any], Any]:
    """Make the option ``--start``."""
    return click.option(
        "--start",
        default="earliest",
        show_default=True,
        metavar="WHERE",
        help=f"{text}: earliest, latest, the number of a segment, or a time (ISO 8601, UTC).",
    )


def check_start(start: str) -> None:
    """Raise InputError unless it is a position."""
    from quiver.engine.start import parse_start

    parse_start(start)


@contextmanager
def open_cores(output: Output, folder: str, *, call: str) -> Iterator[dict[int, Store]]:
    """Open all cores of a store: the log is a segment then, and inboxes are folded in.

    ``call`` is what whoever has the store open can do instead. Raises LockedError.
    """
    from quiver.cli.inspect import core_numbers, open_folder
    from quiver.errors import LockedError
    from quiver.manifest import StoreManifest

    with closing(open_folder(folder)) as disk:
        StoreManifest.read(disk)
        cores = core_numbers(disk) or [0]
    with ExitStack() as stack:
        stores = {}
        for core in cores:
            try:
                store = open_store(output, folder, strict=False, core=core)
            except LockedError as error:
                hint = f"end that process, or let it call {call}"
                raise LockedError(error.message, pid=error.pid, hint=hint) from error
            stores[core] = stack.enter_context(store)
            for damage in store.recovery.damage:
                output.warn(f"quiver: set aside while opening: {damage}")
            store.finalize()  # So that every bundle has a place, by which a start can be found.
            store.maintain()
        yield stores


def held_by(stores: Mapping[int, Store], name: str) -> dict[int, Store]:
    """Give the cores in which there is a subscriber; SubscriberError if that is none."""
    from quiver.errors import SubscriberError

    names = {core: store.info().subscribers for core, store in stores.items()}
    found = {core: store for core, store in stores.items() if name in names[core]}
    if not found:
        known = ", ".join(sorted({each for some in names.values() for each in some})) or "none"
        raise SubscriberError(f"no subscriber {name!r}", hint=f"registered: {known}")
    return found


def change(
    output: Output,
    stores: Mapping[int, Store],
    act: Callable[[Store], object],
    *,
    name: str,
    done: str,
) -> None:
    """Do something in each core, and report where the subscriber ``name`` stands then."""
    rows = []
    for core, store in stores.items():
        act(store)
        lag = store.lag(name)
        rows.append(
            {
                "core": core,
                "subscriber_id": lag.subscriber_id,
                "open_segment_count": lag.segment_count,
                "open_bundle_count": lag.bundle_count,
                "is_paused": lag.is_paused,
            }
        )
    path = next(iter(stores.values())).path
    if output.as_json:
        output.document({"path": path, "name": name, "cores": rows})
        return
    opened = sum(row["open_bundle_count"] for row in rows)
    where = f" in {count(len(rows), 'core')}" if len(rows) > 1 else ""
    output.text(f"{name} {done}{where}: {count(opened, 'open bundle')}")
