"""Subscribers come, pause, and are looked at; each step is durable before anybody is told.

A register is written twice: whom a log forgets nobody waits for, and one damaged frame must not be
enough for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quiver.acks import Pause, Record, Register
from quiver.engine.core import Core
from quiver.engine.desk import Desk
from quiver.engine.outcomes import apply
from quiver.engine.sealed import finalize
from quiver.engine.space import sync_acks
from quiver.engine.start import Position, Start, find_start, parse_start
from quiver.subscriber import check_name

__all__ = ["Lag", "enter", "find_position", "lag_of", "pause", "register", "register_at"]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a subscriber is behind, and what it holds; of finished segments only.

    ``byte_count`` is that of the files, by the share of their bundles that is open.
    ``pinned_bytes`` would be free to go if this subscriber were not there.
    """

    subscriber: str
    subscriber_id: int
    high_water_mark: int | None
    """The newest segment such that none up to it has an open bundle; None if there is none."""
    segment_count: int
    bundle_count: int
    byte_count: int
    pinned_bytes: int
    oldest_age_ns: int | None
    """How long ago the oldest open bundle's segment began; None if nothing is open."""
    claimed_count: int
    waiting_count: int
    """Bundles that were nacked and are not offered yet."""
    dead_letter_count: int
    is_paused: bool
    last_seen_ns: int
    """When the last outcome or the registration was written down, since 1970; 0: unknown."""


def register(core: Core, name: str, start: Start = "earliest") -> None:
    """Make a subscriber known, for good; one that is known stays where it is."""
    core.check()
    if name in core.registry:
        return
    check_name(name)
    position = find_position(core, start)
    if name not in core.registry:  # Somebody may have been faster while a segment was written.
        register_at(core, name, position)


def register_at(core: Core, name: str, position: Position) -> None:
    """Make a subscriber known that nobody knows yet."""
    with core.whole():
        enter(core, core.registry.next_id(), name, position=position)
    core.events.info(
        "subscriber.registered", subscriber=name, segment_seq_first=position.segment_seq
    )


def enter(
    core: Core,
    subscriber_id: int,
    name: str,
    *,
    position: Position,
    more: Sequence[Record] = (),
) -> None:
    """Write a register down, and ``more`` of the same subscriber, then follow them."""
    now = core.clock.wall_ns()
    register = Register(subscriber_id, name, now, *position)
    core.outlet.append([register, register, *more])
    sync_acks(core)
    core.registry.replay_register(
        subscriber_id,
        name,
        start_segment_seq=position.segment_seq,
        start_bundle_index=position.bundle_index,
    )
    core.registry.replay_seen(subscriber_id, now)
    for record in more:
        apply(core.registry, record)


def find_position(core: Core, start: Start) -> Position:
    """Find the start; for the latest one, or a time, all that is open becomes a segment first."""
    wanted = parse_start(start)
    if wanted == "latest" or isinstance(wanted, datetime):
        finalize(core)
        core.check_open()
    next_seq = core.next_segment_seq
    return find_start(wanted, core.catalog, core.disk, next_segment_seq=next_seq)


def pause(core: Core, name: str, *, paused: bool) -> None:
    """Deliver nothing to a subscriber from now on, or again; what it needs is kept either way."""
    core.check()
    subscriber_id = core.registry.member(name).subscriber_id
    with core.whole():
        core.outlet.append([Pause(subscriber_id, core.clock.wall_ns(), paused)])
        sync_acks(core)
        core.registry.replay_paused(subscriber_id, paused=paused)
        core.announce()
    core.folded.pop(name, None)  # The next tick looks at the inbox and tells it there.
    if paused:
        core.events.info("subscriber.paused", subscriber=name)
    else:
        core.events.info("subscriber.resumed", subscriber=name)


def lag_of(core: Desk, name: str) -> Lag:
    """Say how far one subscriber is; costs what its open segments are."""
    member = core.registry.member(name)
    progress = member.progress
    byte_count, oldest = 0, None
    for segment_seq in progress.open_segments:
        info = core.catalog.get(segment_seq)
        byte_count += info.file_bytes * progress.outstanding(segment_seq) // info.bundle_count
        if oldest is None:
            oldest = info.ingestion_ns_min
    now = core.clock.wall_ns()
    return Lag(
        subscriber=name,
        subscriber_id=member.subscriber_id,
        high_water_mark=progress.high_water_mark,
        segment_count=len(progress.open_segments),
        bundle_count=progress.lag,
        byte_count=byte_count,
        pinned_bytes=sum(
            core.catalog.get(seq).file_bytes for seq in core.registry.needed_only_by(name)
        ),
        oldest_age_ns=None if oldest is None else max(now - oldest, 0),
        claimed_count=sum(claim.count for claim in member.claims.values()),
        waiting_count=len(member.offers.waiting),
        dead_letter_count=member.dead_letter_count,
        is_paused=member.paused,
        last_seen_ns=member.last_seen_ns,
    )
