"""A new core knows the subscribers of the others from its first bundle on.

Otherwise who is not there just now, and has not heard of the new core yet, would find that what
came first in it was deleted, because all others had it.
"""

from __future__ import annotations

from quiver.acks.letterbox import list_inbox, read_inbox
from quiver.engine import lifecycle
from quiver.engine.beside import read_acks
from quiver.engine.core import Core
from quiver.engine.inboxes import inbox_folder
from quiver.engine.numbers import core_folder, core_numbers
from quiver.engine.start import Position
from quiver.errors import DamageError, MissingError, QuiverError
from quiver.subscriber import Registry

__all__ = ["inherit"]


def inherit(core: Core) -> None:
    """Register whoever is registered in another core, if this one never had a bundle."""
    if core.next_wal_seq or core.next_segment_seq:
        return
    with core.lock:
        for number in core_numbers(core.disk):
            if number != core.number:
                _take(core, number)


def _take(core: Core, number: int) -> None:
    """Register who is known there; what cannot be read is passed over, for it stops no writer."""
    # Inboxes first: who is folded in between the two looks is in one of them at least.
    news, registry = _not_folded_in(core, number), Registry()
    try:
        registry = read_acks(core.disk, number, {}).registry
    except QuiverError as error:
        _warn(core, number, error)
    for name in [*registry.names(), *news]:
        if name not in core.registry:
            lifecycle.register_at(core, name, Position())
            if name in registry and registry.member(name).paused:
                lifecycle.pause(core, name, paused=True)


def _not_folded_in(core: Core, number: int) -> list[str]:
    """List those who came to a core by an inbox, and do not know that its writer knows them."""
    folder = inbox_folder(core_folder(number))
    store_id = core.manifest.store_id
    try:
        names = [stat.name for stat in list_inbox(core.disk, folder)]
    except QuiverError as error:
        _warn(core, number, error)
        return []
    found = []
    for name in names:
        try:
            if not read_inbox(core.disk, folder, name, store_id=store_id).subscriber_id:
                found.append(name)
        except (MissingError, DamageError):
            continue
        except QuiverError as error:  # It says nothing of the others.
            _warn(core, number, error)
    return found


def _warn(core: Core, number: int, error: QuiverError) -> None:
    core.events.warning("subscriber.inherit_failed", other_core=number, error=error)
