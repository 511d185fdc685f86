"""How verbs that change subscribers open a store: all of its cores, or none of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from quiver.cli.opening import visit_store
from quiver.cli.output import Output, count
from quiver.errors import InputError
from quiver.units import format_bytes

if TYPE_CHECKING:
    from quiver.engine import Store
    from quiver.engine.standing import Pinned

__all__ = [
    "ask",
    "change",
    "check_start",
    "freed_fields",
    "held_by",
    "open_cores",
    "see_freed",
    "start_option",
    "yes_option",
]


def start_option(text: str) -> Callable[[Any], Any]:
    """Make the option ``--start``."""
    return click.option(
        "--start",
        default="earliest",
        show_default=True,
        metavar="WHERE",
        help=f"{text}: earliest, latest, the number of a segment, or a time (ISO 8601, UTC).",
    )


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def ask(output: Output, told: str, question: str, *, yes: bool) -> None:
    """Tell what is going to happen, and go on only if the person wants that, or said --yes."""
    (output.say if yes else output.warn)(told)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"nobody is there to be asked: {question}", hint="--yes")
    click.confirm(question, abort=True, err=True)


def see_freed(
    output: Output,
    folder: str,
    name: str,
    *,
    start: str,
    call: str,
    find: Callable[[Mapping[int, Store], str], dict[int, Store]],
    yes: bool,
) -> dict[int, Pinned]:
    """Tell what is deleted when a subscriber starts at a position, and ask if that is anything.

    ``find`` gives the cores in which it is going to start, or raises. Gives what it is by core.
    """
    from quiver.cli.standing import read_freed

    if start == "earliest":
        return {}
    with open_cores(output, folder, call=call) as stores:
        cores = set(find(stores, name))
    freed = read_freed(folder, name, start, warn=output.warn)
    freed = {core: pinned for core, pinned in freed.items() if core in cores}
    segments = sum(each.segment_count for each in freed.values())
    if not segments:
        output.say(f"Nothing is deleted when {name} starts from {start} on.")
        return freed
    bundles = count(sum(each.bundle_count for each in freed.values()), "bundle")
    size = format_bytes(sum(each.byte_count for each in freed.values()))
    told = (
        f"Nobody needs {count(segments, 'segment')} with {bundles}, {size}, "
        f"when {name} starts from {start} on: they are deleted."
    )
    ask(output, told, "Delete what lies before?", yes=yes)
    return freed


def freed_fields(pinned: Pinned | None) -> dict[str, int]:
    """Name what may be deleted as reports do; None is nothing."""
    return {
        "freed_segment_count": 0 if pinned is None else pinned.segment_count,
        "freed_bundle_count": 0 if pinned is None else pinned.bundle_count,
        "freed_bytes": 0 if pinned is None else pinned.byte_count,
    }


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
                visit = visit_store(output, folder, strict=False, core=core)
                stores[core] = store = stack.enter_context(visit)
            except LockedError as error:
                hint = f"end that process (SIGTERM, if it is quiver run), or let it call {call}"
                raise LockedError(error.message, pid=error.pid, hint=hint) from error
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
    freed: Mapping[int, Pinned] | None = None,
) -> None:
    """Do something in each core, and report where the subscriber ``name`` stands then.

    ``freed`` is what may be deleted by that, as ``see_freed`` gives it.
    """
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
                **freed_fields((freed or {}).get(core)),
            }
        )
    path = next(iter(stores.values())).path
    if output.as_json:
        output.document({"path": path, "name": name, "cores": rows})
        return
    opened = sum(row["open_bundle_count"] for row in rows)
    where = f" in {count(len(rows), 'core')}" if len(rows) > 1 else ""
    output.text(f"{name} {done}{where}: {count(opened, 'open bundle')}")
