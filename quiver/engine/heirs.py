"""A new core knows the subscribers of the others from its first bundle on.

Otherwise who is not there just now, and has not heard of the new core yet, would find that what
came first in it was deleted, because all others had it.
"""

from __future__ import annotations

from quiver.engine import lifecycle
from quiver.engine.beside import read_acks
from quiver.engine.core import Core
from quiver.engine.numbers import core_numbers
from quiver.engine.start import Position
from quiver.errors import QuiverError
from quiver.subscriber import Registry

__all__ = ["inherit"]


def inherit(core: Core) -> None:
    """Register whoever is registered in another core, if this one never had a bundle."""
    if core.next_wal_seq or core.next_segment_seq:
        return
    with core.lock:
        for number in core_numbers(core.disk):
            if number != core.number:
                _take(core, _registry(core, number))


def _registry(core: Core, number: int) -> Registry:
    """Read who is registered there; nobody if that cannot be read, for it stops no writer."""
    try:
        return read_acks(core.disk, number, {}).registry
    except QuiverError as error:
        core.events.warning("subscriber.inherit_failed", other_core=number, error=error)
        return Registry()


def _take(core: Core, registry: Registry) -> None:
    for name in registry.names():
        if name in core.registry:
            continue
        lifecycle.register_at(core, name, Position())
        if registry.member(name).paused:
            lifecycle.pause(core, name, paused=True)
