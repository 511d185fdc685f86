"""A bundle for one subscriber, which all others are taken to have: a dead letter comes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quiver.engine import ingest, sealed
from quiver.engine.core import Core
from quiver.engine.timekeeping import begin_intake, begin_times, intake_ns
from quiver.errors import OutOfSequenceError
from quiver.payload import Payload

__all__ = ["append_for"]


def append_for(core: Core, name: str, bundle: Mapping[str, Any]) -> int:
    """Take a bundle that only one subscriber gets, with the core's lock held; give its number.

    Whoever else has subscribed has it before anybody can make a segment of it. It gets the last
    time that there was where times are the caller's: he goes on with his own behind it.
    """
    core.registry.member(name)
    payloads = ingest.encode(core, bundle)
    taken = _take(core, payloads)
    wal_seq = taken.ticket.wal_seq
    for other, subscriber_id in core.registry.ids.items():
        if other != name:
            core.early.add(subscriber_id, [wal_seq])
    if taken.has_sealed:
        sealed.try_write_sealed(core)
    return wal_seq


def _take(core: Core, payloads: tuple[Payload, ...]) -> ingest.Taken:
    if not core.has_begun_times:
        keeps = core.config.segment.time == "clock" != core.times.rule
        (begin_intake if keeps else begin_times)(core)
    while True:
        time_ns = intake_ns(core) if core.times.rule == "caller" else None
        try:
            return ingest.take(core, payloads, time_ns=time_ns)
        except OutOfSequenceError:  # Somebody appended while there was no room in memory.
            continue
