"""Hand bundles to subscribers and write down what became of them.

A claim reads its bundle before anybody sees it, so damage is met here and not in the hands of a
subscriber: the bundle (or the whole segment, if its tables are gone) is copied to quarantine,
written off as dropped, and the next one is claimed. One bad segment never blocks the rest.
"""

from __future__ import annotations

import logging

from quiver.acks import DROPPED_DAMAGED, Ack, Dropped, Nack, Record, Register, Unregister
from quiver.bundle import RecordBundle
from quiver.disk import copy_file
from quiver.engine.core import Core
from quiver.engine.space import sync_acks, write_off_segment
from quiver.errors import DamageError, MissingError, QuiverError
from quiver.segment import BundleEntry, SegmentReader
from quiver.subscriber import Claim

__all__ = ["ack", "defer", "nack", "next_claim", "register", "release_forgotten", "unregister"]

_READERS_MAX = 16
_log = logging.getLogger("quiver.subscriber")


def register(core: Core, name: str) -> None:
    """Make a subscriber known, for good, with everything that is there."""
    core.check()
    if name in core.registry.ids:
        return
    with core.whole():
        subscriber_id = core.registry.register(name)
        try:
            _write(core, [Register(subscriber_id, name, core.clock.wall_ns())] * 2)
            sync_acks(core)
        except QuiverError:
            core.registry.unregister(name)
            raise


def unregister(core: Core, name: str) -> None:
    """Forget a subscriber; what only it still needed may be deleted from now on."""
    core.check()
    core.registry.progress(name)
    with core.whole():
        _write(core, [Unregister(core.registry.ids[name], core.clock.wall_ns())])
        sync_acks(core)
        core.registry.unregister(name)
        core.announce()


def release_forgotten(core: Core) -> None:
    """Offer again what was claimed through handles that nobody has any more."""
    while core.forgotten:
        core.registry.release(core.forgotten.popleft())
        core.announce()


def next_claim(core: Core, name: str) -> tuple[Claim, BundleEntry, RecordBundle] | None:
    """Claim and read the next bundle for a subscriber; None if nothing is ready."""
    core.check()
    release_forgotten(core)
    while True:
        claim = core.registry.claim(name, core.clock.wall_ns())
        if claim is None:
            return None
        try:
            found = _read(core, claim)
        except DamageError as error:
            core.registry.release(claim)
            with core.whole():
                _write_off(core, claim, error)
        except MissingError as error:
            _postpone(core, claim, error)
        except BaseException:
            core.registry.release(claim)
            raise
        else:
            if found is not None:
                return claim, *found
            core.registry.release(claim)
            with core.whole():
                _drop(core, claim)


def _read(core: Core, claim: Claim) -> tuple[BundleEntry, RecordBundle] | None:
    """Read a bundle; None if damage took a part of it, as a repair wrote down."""
    reader = core.readers.get(claim.segment_seq)
    if reader is None:
        path = core.catalog.get(claim.segment_seq).path
        reader = SegmentReader.open(core.disk, path, limits=core.config.limits.for_reading())
        if len(core.readers) >= _READERS_MAX:
            core.readers.pop(next(iter(core.readers)))
        core.readers[claim.segment_seq] = reader
    if claim.bundle_index in reader.lost:
        return None
    batches = reader.bundle(claim.bundle_index)
    slots = core.manifest.slots
    named = {slots[slot_id].name: batch for slot_id, batch in batches.items()}
    return reader.bundle_entry(claim.bundle_index), RecordBundle(named)


def _postpone(core: Core, claim: Claim, error: MissingError) -> None:
    """Leave a bundle whose file is gone for later: what is not seen is not known to be lost."""
    if claim.segment_seq not in core.missing_segments:
        core.missing_segments.add(claim.segment_seq)
        core.metrics.add("quiver.segment.missing")
        _log.warning("subscriber.segment_missing", extra={"error": str(error)})
    core.registry.nack(claim, core.clock.wall_ns() + core.config.subscriber.retry_max)


def _write_off(core: Core, claim: Claim, error: DamageError) -> None:
    """Record as dropped what cannot be read, the bundle or its whole segment, with a copy kept."""
    seq = claim.segment_seq
    if seq not in core.damaged_segments:
        _copy_segment(core, seq, error)
        core.damaged_segments.add(seq)
        core.metrics.add("quiver.damage.found", label="segment")
        core.report.damage.append(error)
    if seq not in core.readers:
        write_off_segment(core, seq, DROPPED_DAMAGED)
        return
    _drop(core, claim)


def _drop(core: Core, claim: Claim) -> None:
    """Record that a subscriber never gets a bundle."""
    seq = claim.segment_seq
    now = core.clock.wall_ns()
    record = Dropped(claim.subscriber_id, seq, claim.bundle_index, 1, now, DROPPED_DAMAGED)
    _write(core, [record])
    name = core.registry.name_of(claim.subscriber_id)
    core.registry.resolve(name, seq, claim.bundle_index)
    core.metrics.add("quiver.subscriber.dropped_bundles", label=name)


def _copy_segment(core: Core, segment_seq: int, error: DamageError) -> None:
    """Keep a damaged segment in quarantine: the original goes once all bundles are resolved."""
    path = core.catalog.get(segment_seq).path
    copy_file(core.disk, core.path("quarantine"), path, error=error)


def ack(core: Core, claim: Claim) -> None:
    """Write down that a subscriber has a bundle; durable with the next tick at the latest."""
    core.check()
    name = core.registry.name_of(claim.subscriber_id)
    seq, index = claim.segment_seq, claim.bundle_index
    with core.whole():
        _write(core, [Ack(claim.subscriber_id, seq, index, 1, core.clock.wall_ns())])
        core.registry.resolve(name, seq, index)


def nack(core: Core, claim: Claim, delay_ns: int | None, *, reason: str) -> None:
    """Write down that a subscriber failed with a bundle; it is offered again after the delay.

    Without one, the delay doubles with each attempt, from ``retry_first`` to ``retry_max``.
    """
    core.check()
    config = core.config.subscriber
    if delay_ns is None:
        delay_ns = min(config.retry_first << min(claim.attempt - 1, 32), config.retry_max)
    now = core.clock.wall_ns()
    record = Nack(
        subscriber_id=claim.subscriber_id,
        segment_seq=claim.segment_seq,
        bundle_index=claim.bundle_index,
        attempt=claim.attempt,
        not_before_ns=now + delay_ns,
        at_ns=now,
    )
    with core.whole():
        _write(core, [record])
        core.registry.nack(claim, now + delay_ns)
    _log.info("subscriber.nacked", extra={"attempt": claim.attempt, "reason": reason[:200]})
    core.announce()


def defer(core: Core, claim: Claim) -> None:
    """Put a claimed bundle back; it is offered again at once and nothing is written."""
    core.registry.release(claim)
    core.announce()


def _write(core: Core, records: list[Record]) -> None:
    core.acks.append(records)
    core.acks_unsynced = True
    core.metrics.add("quiver.acks.records", len(records))
