"""Hand bundles to subscribers and write down what became of them.

A claim reads its bundles before anybody sees them, so damage is met here and not in the hands of a
subscriber: the bundle (or the whole segment, if its tables are gone) is copied to quarantine,
written off as dropped, and the next one is claimed. One bad segment never blocks the rest, nor does
one that the disk does not let be read: its bundles wait for a while.

Reading is done without the lock, everything else with it held.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from quiver.acks import DEAD_ATTEMPTS, DEAD_REJECTED, DROPPED_DAMAGED, Ack, Dropped, Nack, Record
from quiver.bundle import RecordBundle
from quiver.disk import copy_file
from quiver.engine import dead_letters
from quiver.engine.core import Core
from quiver.engine.readers import OpenedSegment
from quiver.engine.space import write_off_segment
from quiver.errors import DamagedEntry, DamageError, MissingError, QuiverError, StorageError
from quiver.segment import BundleEntry
from quiver.subscriber import Claim, Order, oldest

__all__ = [
    "Found",
    "ack",
    "claim",
    "defer",
    "nack",
    "open_claimed",
    "pick",
    "read",
    "reject",
    "release_forgotten",
    "set_aside",
    "skip",
    "write",
]

_READS_MAX: Final = 3
"""How often in a row a segment may refuse to be read before its bundles have to wait."""
_JITTER: Final = 0.2
_log = logging.getLogger("quiver.subscriber")


class Found(NamedTuple):
    """Bundles that were claimed and read, on their way to whoever asked."""

    claim: Claim
    opened: OpenedSegment
    entry: BundleEntry
    """Of the first bundle."""
    bundle: RecordBundle
    """The first bundle."""
    slots: Collection[int] | None = None
    """The slots that were asked for; None for all."""


def claim(core: Core, name: str, *, order: Order = oldest, limit: int = 1) -> Claim | None:
    """Claim what comes next for a subscriber; None if nothing is ready."""
    core.check()
    release_forgotten(core)
    now = core.clock.wall_ns()
    core.registry.member(name).last_seen_ns = now
    return core.registry.claim(name, now, order=order, limit=limit)


def release_forgotten(core: Core) -> None:
    """Offer again what was claimed through handles that nobody has any more."""
    while core.forgotten:
        core.registry.release(core.forgotten.popleft())
        core.announce()


def open_claimed(core: Core, claim: Claim) -> OpenedSegment:
    """Open the segment that a claim is of; without the lock."""
    with core.lock:
        if claim.segment_seq not in core.catalog:
            raise MissingError(f"segment {claim.segment_seq} was deleted")
        path = core.catalog.get(claim.segment_seq).path
    return core.readers.get(claim.segment_seq, path)


def read(core: Core, claim: Claim, *, slots: Collection[int] | None = None) -> Found:
    """Read what was claimed, all of it if that is several bundles; without the lock.

    With ``slots`` only those. Raises DamagedEntry if any of it is damaged, or was found so by a
    repair.
    """
    opened = open_claimed(core, claim)
    first, count = claim.bundle_index, claim.count
    for index in opened.reader.lost:
        if first <= index < first + count:
            raise DamagedEntry(f"bundle {index} of segment {claim.segment_seq} lost a part")
    table = core.manifest.slots
    batches = opened.bundle(first, slots)
    for slot in table if count > 1 else ():
        if slots is None or slot.slot_id in slots:
            for _ in opened.tables(first, count, slot.slot_id):
                pass
    named = {table[slot_id].name: batch for slot_id, batch in batches.items()}
    entry = opened.reader.bundle_entry(first)
    core.unread_counts.pop(claim.segment_seq, None)
    return Found(claim, opened, entry, RecordBundle(named), slots)


def pick(core: Core, found: Found, claim: Claim) -> Found:
    """Take one bundle out of a run that was read."""
    opened, slots = found.opened, core.manifest.slots
    batches = opened.bundle(claim.bundle_index, found.slots)
    bundle = RecordBundle({slots[slot_id].name: batch for slot_id, batch in batches.items()})
    return Found(claim, opened, opened.reader.bundle_entry(claim.bundle_index), bundle, found.slots)


def skip(core: Core, name: str, segment_seq: int, *, runs: Iterable[tuple[int, int]]) -> None:
    """Resolve bundles, as runs (first, count), that a subscriber does not want; no claims."""
    progress, now = core.registry.progress(name), core.clock.wall_ns()
    open_runs = progress.open_runs(segment_seq)
    found = [
        (max(low, first), min(low + size, first + count))
        for first, count in runs
        for low, size in open_runs
        if max(low, first) < min(low + size, first + count)
    ]
    number = core.registry.ids[name]
    with core.whole():
        write(core, [Ack(number, segment_seq, low, high - low, now) for low, high in found])
        for low, high in found:
            core.registry.resolve(name, segment_seq, low, count=high - low)


def set_aside(core: Core, claim: Claim, error: QuiverError) -> None:
    """Do what is to be done about a claim that could not be read, so that others are not held up.

    Raises the error itself while it may pass.
    """
    if not core.registry.holds(claim):
        return  # The segment was dropped meanwhile.
    if claim.count > 1:  # One by one the sound ones are told from the others.
        core.registry.release(core.registry.narrow(claim, 1))
        return
    if isinstance(error, DamageError):
        core.registry.release(claim)
        with core.whole():
            _write_off(core, claim, error)
        return
    if isinstance(error, MissingError):
        _postpone(core, claim, error)
        return
    count = core.unread_counts[claim.segment_seq] = core.unread_counts.get(claim.segment_seq, 0) + 1
    if count < _READS_MAX or not isinstance(error, StorageError):
        core.registry.release(claim)
        raise error
    _postpone(core, claim, error)


def _postpone(core: Core, claim: Claim, error: QuiverError) -> None:
    """Leave a bundle that cannot be read for later: what is not seen is not known to be lost."""
    if claim.segment_seq not in core.missing_segments:
        core.missing_segments.add(claim.segment_seq)
        core.metrics.add("quiver.segment.missing")
        _log.warning("subscriber.segment_missing", extra={"error": str(error)})
    core.registry.nack(claim, core.clock.wall_ns() + core.config.subscriber.retry_max)


def _write_off(core: Core, claim: Claim, error: DamageError) -> None:
    """Record as dropped what cannot be read, the bundle or its whole segment, with a copy kept."""
    seq = claim.segment_seq
    opened = core.readers.get_if_open(seq)
    is_known = opened is not None and claim.bundle_index in opened.reader.lost
    if seq not in core.damaged_segments and not is_known:
        _copy_segment(core, seq, error)
        core.damaged_segments.add(seq)
        core.metrics.add("quiver.damage.found", label="segment")
        core.report.damage.append(error)
    if opened is None:
        write_off_segment(core, seq, DROPPED_DAMAGED)
        return
    now = core.clock.wall_ns()
    record = Dropped(claim.subscriber_id, seq, claim.bundle_index, 1, now, DROPPED_DAMAGED)
    write(core, [record])
    name = core.registry.name_of(claim.subscriber_id)
    core.registry.resolve(name, seq, claim.bundle_index)
    core.metrics.add("quiver.subscriber.dropped_bundles", label=name)


def _copy_segment(core: Core, segment_seq: int, error: DamageError) -> None:
    """Keep a damaged segment in quarantine: the original goes once all bundles are resolved."""
    path = core.catalog.get(segment_seq).path
    copy_file(core.disk, core.path("quarantine"), path, error=error)


def ack(core: Core, claim: Claim) -> None:
    """Write down that a subscriber has its bundles; durable with the next tick at the latest."""
    core.check()
    if not core.registry.holds(claim):
        return
    now = core.clock.wall_ns()
    with core.whole():
        write(core, [Ack(claim.subscriber_id, *claim.run, now)])
        core.registry.settle(claim)


def nack(core: Core, claim: Claim, delay_ns: int | None, *, reason: str) -> None:
    """Write down that a subscriber failed with bundles; they are offered again after the delay.

    Without one, the delay doubles with each attempt, from ``retry_first`` to ``retry_max``. What
    failed as often as ``max_attempts`` allows is given up instead; should the disk have no room for
    that, it is tried once more.
    """
    core.check()
    if not core.registry.holds(claim):
        return
    config = core.config.subscriber
    if 0 < config.max_attempts <= claim.attempt:
        try:
            _give_up(core, claim, DEAD_ATTEMPTS, reason=reason)
        except QuiverError as error:
            core.check()
            _log.warning("subscriber.dead_letter_failed", extra={"error": str(error)})
        else:
            return
    if delay_ns is None:
        delay_ns = min(config.retry_first << min(claim.attempt - 1, 32), config.retry_max)
        delay_ns -= int(delay_ns * _jitter(claim))
    now = core.clock.wall_ns()
    records = [
        Nack(
            subscriber_id=claim.subscriber_id,
            segment_seq=claim.segment_seq,
            bundle_index=index,
            attempt=claim.attempt,
            not_before_ns=now + delay_ns,
            at_ns=now,
        )
        for index in range(claim.bundle_index, claim.bundle_index + claim.count)
    ]
    with core.whole():
        write(core, records)
        core.registry.nack(claim, now + delay_ns)
    _log.info("subscriber.nacked", extra={"attempt": claim.attempt, "reason": reason[:200]})
    core.announce()


def _jitter(claim: Claim) -> float:
    """Choose the share to take off a delay, another one for each bundle and attempt."""
    text = f"{claim.subscriber_id} {claim.segment_seq} {claim.bundle_index} {claim.attempt}"
    return _JITTER * zlib.crc32(text.encode()) / (1 << 32)


def reject(core: Core, claim: Claim, *, reason: str) -> None:
    """Give bundles up for a subscriber: they are set aside, durably, and never delivered again.

    Raises what the disk refuses; nothing is given up then.
    """
    core.check()
    if core.registry.holds(claim):
        _give_up(core, claim, DEAD_REJECTED, reason=reason)


def _give_up(core: Core, claim: Claim, outcome: int, *, reason: str) -> None:
    record = dead_letters.write(
        core, claim, outcome, opened=open_claimed(core, claim), reason=reason
    )
    name = core.registry.name_of(claim.subscriber_id)
    with core.whole():
        write(core, [record])
        core.registry.count_dead_letters(claim)
        core.registry.settle(claim)
    core.metrics.add("quiver.subscriber.dead_letters", claim.count, label=name)
    _log.warning("subscriber.dead_letter", extra={"attempt": claim.attempt, "reason": reason[:200]})


def defer(core: Core, claim: Claim) -> None:
    """Put claimed bundles back; they are offered again at once and nothing is written."""
    core.registry.release(claim)
    core.announce()


def write(core: Core, records: Sequence[Record]) -> None:
    """Append to ack.log; durable with the next tick."""
    core.acks.append(records)
    core.acks_unsynced = True
    core.metrics.add("quiver.acks.records", len(records))
