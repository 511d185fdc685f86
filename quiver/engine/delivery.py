"""Hand bundles to subscribers and write down what became of them.

A claim reads its bundles before anybody sees them, so damage is met here and not in the hands of a
subscriber: the bundle (or the whole segment, if its tables are gone) is copied to quarantine,
written off as dropped, and the next one is claimed. One bad segment never blocks the rest, nor does
one that the disk does not let be read: its bundles wait for a while.

Reading is done without the lock, everything else with it held.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from quiver.acks import DEAD_ATTEMPTS, DEAD_REJECTED, Ack, Nack
from quiver.bundle import RecordBundle
from quiver.engine.desk import Desk
from quiver.engine.readers import OpenedSegment
from quiver.errors import DamagedEntry, DamageError, MissingError, QuiverError, StorageError
from quiver.segment import BundleEntry
from quiver.subscriber import Claim, Order, oldest

__all__ = [
    "Found",
    "ack",
    "claim",
    "defer",
    "follow_clock",
    "give_up",
    "nack",
    "open_claimed",
    "pick",
    "read",
    "reject",
    "release_forgotten",
    "set_aside",
    "skip",
]

_READS_MAX: Final = 3
"""How often in a row a segment may refuse to be read before its bundles have to wait."""
_JITTER: Final = 0.2
_LATEST_NS: Final = (1 << 63) - 1
"""The last moment that a record can name."""


class Found(NamedTuple):
    """Bundles that were claimed and read, on their way to whoever asked."""

    claim: Claim
    opened: OpenedSegment
    entry: BundleEntry
    """Of the first bundle."""
    bundle: RecordBundle
    """The bundle; of several none."""
    slots: Collection[int] | None = None
    """The slots that were asked for; None for all."""


def claim(desk: Desk, name: str, *, order: Order = oldest, limit: int = 1) -> Claim | None:
    """Claim what comes next for a subscriber; None if nothing is ready."""
    desk.check()
    release_forgotten(desk)
    now = desk.clock.wall_ns()
    desk.registry.member(name).see(now)
    return desk.registry.claim(name, now, order=order, limit=limit)


def release_forgotten(desk: Desk) -> None:
    """Offer again what was claimed through handles that nobody has any more."""
    while desk.forgotten:
        desk.registry.release(desk.forgotten.popleft())
        desk.announce()


def follow_clock(desk: Desk) -> None:
    """See to it that what waits is not kept waiting by a clock that was set back."""
    now = desk.clock.wall_ns()
    for name in desk.registry.names():
        member = desk.registry.member(name)
        if now < member.last_seen_ns:
            member.see(now)


def open_claimed(desk: Desk, claim: Claim) -> OpenedSegment:
    """Open the segment that a claim is of; without the lock."""
    with desk.lock:
        if claim.segment_seq not in desk.catalog:
            raise MissingError(f"segment {claim.segment_seq} was deleted")
        path = desk.catalog.get(claim.segment_seq).path
    return desk.readers.get(claim.segment_seq, path)


def read(desk: Desk, claim: Claim, *, slots: Collection[int] | None = None) -> Found:
    """Read what was claimed, all of it if that is several bundles; without the lock.

    With ``slots`` only those. Raises DamagedEntry if any of it is damaged, or was found so by a
    repair.
    """
    opened = open_claimed(desk, claim)
    first, count = claim.bundle_index, claim.count
    for index in opened.reader.lost:
        if first <= index < first + count:
            raise DamagedEntry(f"bundle {index} of segment {claim.segment_seq} lost a part")
    table = desk.manifest.slots
    # Of a run nobody may ever ask for single bundles, and to list them takes a while.
    batches = opened.bundle(first, slots) if count == 1 else {}
    for slot in table if count > 1 else ():
        if slots is None or slot.slot_id in slots:
            for _ in opened.tables(first, count, slot.slot_id):
                pass
    named = {table[slot_id].name: batch for slot_id, batch in batches.items()}
    entry = opened.reader.bundle_entry(first)
    desk.unread_counts.pop(claim.segment_seq, None)
    return Found(claim, opened, entry, RecordBundle(named), slots)


def pick(desk: Desk, found: Found, claim: Claim) -> Found:
    """Take one bundle out of a run that was read."""
    opened, slots = found.opened, desk.manifest.slots
    batches = opened.bundle(claim.bundle_index, found.slots)
    bundle = RecordBundle({slots[slot_id].name: batch for slot_id, batch in batches.items()})
    return Found(claim, opened, opened.reader.bundle_entry(claim.bundle_index), bundle, found.slots)


def skip(desk: Desk, name: str, segment_seq: int, *, runs: Iterable[tuple[int, int]]) -> None:
    """Resolve bundles, as runs (first, count), that a subscriber does not want; no claims."""
    progress, now = desk.registry.progress(name), desk.clock.wall_ns()
    found = [part for run in runs for part in progress.open_within(segment_seq, *run)]
    number = desk.registry.ids[name]
    with desk.whole():
        desk.outlet.append([Ack(number, segment_seq, *part, now) for part in found])
        for first, count in found:
            desk.registry.resolve(name, segment_seq, first, count=count)


def set_aside(desk: Desk, claim: Claim, error: QuiverError) -> None:
    """Do what is to be done about a claim that could not be read, so that others are not held up.

    Raises the error itself while it may pass.
    """
    if not desk.registry.holds(claim):
        return  # The segment was dropped meanwhile.
    if claim.count > 1:  # One by one the sound ones are told from the others.
        desk.registry.set_apart(claim)
        return
    if isinstance(error, DamageError):
        desk.registry.release(claim)
        with desk.whole():
            opened = desk.readers.get_if_open(claim.segment_seq)
            desk.outlet.write_off(claim, error, opened=opened)
        return
    if isinstance(error, MissingError):
        _postpone(desk, claim, error)
        return
    count = desk.unread_counts[claim.segment_seq] = desk.unread_counts.get(claim.segment_seq, 0) + 1
    if count < _READS_MAX or not isinstance(error, StorageError):
        desk.registry.release(claim)
        raise error
    _postpone(desk, claim, error)


def _postpone(desk: Desk, claim: Claim, error: QuiverError) -> None:
    """Leave a bundle that cannot be read for later: what is not seen is not known to be lost."""
    if claim.segment_seq not in desk.missing_segments:
        desk.missing_segments.add(claim.segment_seq)
        desk.metrics.add("quiver.segment.missing")
        desk.events.warning("segment.missing", segment_seq=claim.segment_seq, error=error)
    now = desk.clock.wall_ns()
    desk.registry.nack(claim, now + desk.config.subscriber.retry_max, at_ns=now)


def ack(desk: Desk, claim: Claim) -> None:
    """Write down that a subscriber has its bundles; durable with the next tick at the latest.

    The caller has checked the desk.
    """
    if not desk.registry.holds(claim):
        return
    run = claim.segment_seq, claim.bundle_index, claim.count
    now = desk.clock.wall_ns()
    try:  # As ``whole`` does it, and quicker.
        desk.outlet.append([Ack(claim.subscriber_id, *run, now)])
        desk.registry.settle_held(claim)
    except QuiverError:
        raise
    except BaseException as error:
        desk.break_off(error)
        raise


def nack(desk: Desk, claim: Claim, delay_ns: int | None, *, reason: str) -> None:
    """Write down that a subscriber failed with bundles; they are offered again after the delay.

    Without one, the delay doubles with each attempt, from ``retry_first`` to ``retry_max``. What
    failed as often as ``max_attempts`` allows is given up instead; should the disk have no room for
    that, it is tried once more.
    """
    desk.check()
    if not desk.registry.holds(claim):
        return
    config = desk.config.subscriber
    if 0 < config.max_attempts <= claim.attempt:
        try:
            give_up(desk, claim, DEAD_ATTEMPTS, reason=reason)
        except QuiverError as error:
            desk.check()
            desk.events.begin("subscriber.dead_letter_failed", error=error)
        else:
            return
    if delay_ns is None:
        delay_ns = min(config.retry_first << min(claim.attempt - 1, 32), config.retry_max)
        delay_ns -= int(delay_ns * _jitter(claim))
    now = desk.clock.wall_ns()
    due_ns = min(now + delay_ns, _LATEST_NS)
    records = [
        Nack(
            subscriber_id=claim.subscriber_id,
            segment_seq=claim.segment_seq,
            bundle_index=index,
            attempt=claim.attempt,
            not_before_ns=due_ns,
            at_ns=now,
        )
        for index in range(claim.bundle_index, claim.bundle_index + claim.count)
    ]
    with desk.whole():
        desk.outlet.append(records)
        desk.registry.nack(claim, due_ns, at_ns=now)
    if _is_first(desk, "nacked", claim):
        name = desk.registry.name_of(claim.subscriber_id)
        desk.events.info(
            "subscriber.nacked",
            subscriber=name,
            segment_seq=claim.segment_seq,
            bundle_index=claim.bundle_index,
            attempt=claim.attempt,
        )
    desk.announce()


def _is_first(desk: Desk, what: str, claim: Claim) -> bool:
    """Whether to tell of it: once for each subscriber and segment, never for each bundle."""
    return desk.events.is_first(what, claim.subscriber_id, claim.segment_seq)


def _jitter(claim: Claim) -> float:
    """Choose the share to take off a delay, another one for each bundle and attempt."""
    text = f"{claim.subscriber_id} {claim.segment_seq} {claim.bundle_index} {claim.attempt}"
    return _JITTER * zlib.crc32(text.encode()) / (1 << 32)


def reject(desk: Desk, claim: Claim, *, reason: str) -> None:
    """Give bundles up for a subscriber: they are set aside, durably, and never delivered again.

    Raises what the disk refuses; nothing is given up then.
    """
    desk.check()
    if desk.registry.holds(claim):
        give_up(desk, claim, DEAD_REJECTED, reason=reason)


def give_up(desk: Desk, claim: Claim, outcome: int, *, reason: str) -> None:
    """Set aside the bundles of a claim that stands, and resolve them."""
    opened = open_claimed(desk, claim)
    name = desk.registry.name_of(claim.subscriber_id)
    with desk.whole():
        desk.outlet.give_up(claim, outcome, opened=opened, reason=reason)
        desk.registry.count_dead_letters(claim)
        desk.registry.settle(claim)
    desk.metrics.add("quiver.subscriber.dead_letters", claim.count, label=name)
    desk.events.end("subscriber.dead_letter_failed")
    if _is_first(desk, "dead_letter", claim):
        desk.events.warning(
            "subscriber.dead_letter",
            subscriber=name,
            segment_seq=claim.segment_seq,
            bundle_index=claim.bundle_index,
            attempt=claim.attempt,
        )


def defer(desk: Desk, claim: Claim) -> None:
    """Put claimed bundles back; they are offered again at once and nothing is written."""
    desk.registry.release(claim)
    desk.announce()
