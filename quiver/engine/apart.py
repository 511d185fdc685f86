"""A bundle for one subscriber, which all others are taken to have: a dead letter comes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver.engine import ingest, sealed
from quiver.engine.core import Core

__all__ = ["append_for"]


def append_for(core: Core, name: str, bundle: Mapping[str, Any]) -> int:
    """Take a bundle that only one subscriber gets, with the core's lock held; give its number.

    Whoever else has subscribed has it before anybody can make a segment of it.
    """
    core.registry.member(name)
    payloads = ingest.encode(core, bundle)
    taken = ingest.take(core, payloads)
    wal_seq = taken.ticket.wal_seq
    for other, subscriber_id in core.registry.ids.items():
        if other != name:
            core.early.add(subscriber_id, [wal_seq])
    if taken.has_sealed:
        sealed.try_write_sealed(core)
    return wal_seq
