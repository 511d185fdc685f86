"""One process at a time goes on as a subscriber: the one that came last.

Whoever comes writes an inbox with a lease above the one that is there. Each commit looks first: a
file that was not written here, or none at all, means that the time here is over. Reading, looking
and replacing are one act, under a lock that is held for as long as that takes.
"""

from __future__ import annotations

from typing import Final

from quiver.acks.inbox import Inbox
from quiver.acks.letterbox import INBOX_FOLDER, holding, read_inbox, write_inbox
from quiver.consumer.follower import DAMAGED_HERE, Follower
from quiver.consumer.gathered import mark_of
from quiver.engine.inboxes import check_lease, set_aside
from quiver.engine.start import Position, Start
from quiver.errors import DamageError, MissingError, SubscriberError
from quiver.subscriber import NackSnapshot

__all__ = ["check", "commit", "take"]

_LARGE_BYTES: Final = 1 << 16
"""Above this an inbox is looked through for what the store has folded in."""


def take(follower: Follower, start: Start) -> None:
    """Go on as the subscriber, where the last process stopped, folded in or not."""
    follower.refresh()  # Most of it is read before anybody has to wait.
    folder, name = _folder(follower), follower.name
    with holding(follower.disk, folder, name):
        # What ack.log has may be in no inbox any more, so both are read while no inbox changes.
        follower.load(start)
        lease = follower.registry.member(name).lease
        before = _before(follower, lease)
        if before is not None and before.subscriber_id in (0, follower.gathered.subscriber_id):
            lease = max(lease, before.lease)
            _go_on(follower, before)
        follower.gathered.lease = lease + 1
        _write(follower)


def _before(follower: Follower, lease: int) -> Inbox | None:
    """Read what the last process left; what cannot be believed is set aside, with its reason."""
    disk, folder, name = follower.disk, _folder(follower), follower.name
    try:
        before = read_inbox(disk, folder, name, store_id=follower.manifest.store_id)
        check_lease(before, lease, place=disk.locate(f"{folder}/{name}"))
    except MissingError:
        return None
    except DamageError as error:
        set_aside(disk, follower.folder, name, error=error)
        follower.events.warning("subscriber.inbox_set_aside", subscriber=name, error=error)
        return None
    return before


def _go_on(follower: Follower, before: Inbox) -> None:
    """Take over what another process did that the store may not have folded in."""
    if not follower.gathered.subscriber_id:
        follower.register(Position(before.start_segment_seq, before.start_bundle_index))
    registry, number = follower.registry, follower.registry.member(follower.name).subscriber_id
    for segment in before.segments:
        for first, count in segment.runs:
            registry.replay_resolved(number, segment.segment_seq, first, count=count)
    for letter in before.dead_letters:
        place = letter.segment_seq, letter.bundle_index
        if letter.reason == DAMAGED_HERE:
            continue  # The store may have found it sound; if not it is damaged here, too.
        if registry.replay_resolved(number, *place, count=1):
            follower.gathered.dead[place] = letter
    for nack in before.nacks:
        place = nack.segment_seq, nack.bundle_index
        registry.replay_nack(number, NackSnapshot(*place, nack.attempt, nack.not_before_ns))


def commit(follower: Follower) -> None:
    """Make what was done here durable, for the store to fold in; SubscriberError if it is over."""
    if not follower.gathered.is_dirty:
        return
    with holding(follower.disk, _folder(follower), follower.name):
        check(follower)
        _write(follower)


def check(follower: Follower) -> None:
    """Raise SubscriberError if somebody else goes on as the subscriber, or it is no more.

    Follows what the store says there: that it is paused, or goes on.
    """
    name, store_id = follower.name, follower.manifest.store_id
    try:
        there = read_inbox(follower.disk, _folder(follower), name, store_id=store_id)
    except MissingError:
        raise _over(name, "it was removed, renamed or reset") from None
    if mark_of(there) not in follower.gathered.written:
        raise _over(name, "another process goes on in its place")
    member = follower.registry.member(name)
    if there.paused != member.paused:
        follower.registry.replay_paused(member.subscriber_id, paused=there.paused)
        follower.announce()


def _write(follower: Follower) -> None:
    folder, name, gathered = _folder(follower), follower.name, follower.gathered
    if not gathered.subscriber_id:
        gathered.subscriber_id = follower.known_id()
    member = follower.registry.member(name)
    gathered.is_dirty = False
    inbox = gathered.inbox(
        member,
        store_id=follower.manifest.store_id,
        name=name,
        at_ns=follower.clock.wall_ns(),
    )
    mark, before = mark_of(inbox), gathered.written[:1]
    gathered.written = *before, mark  # Should writing fail nobody knows which of them is there.
    try:
        write_inbox(follower.disk, folder, inbox)
    except BaseException:
        gathered.is_dirty = True
        raise
    gathered.written = (mark,)
    if sum(len(segment.runs) + 2 for segment in inbox.segments) * 8 > _LARGE_BYTES:
        _see_what_is_folded(follower)


def _see_what_is_folded(follower: Follower) -> None:
    """Read from ack.log how far the subscriber is there: that need not be said again."""
    registry = follower.durable_acks().registry
    if follower.name in registry:
        follower.gathered.folded = registry.progress(follower.name)


def _folder(follower: Follower) -> str:
    return f"{follower.folder}/acks/{INBOX_FOLDER}"


def _over(name: str, why: str) -> SubscriberError:
    return SubscriberError(
        f"this process is no longer the subscriber {name!r}: {why}",
        hint="what it did since its last commit is delivered again; subscribe again to go on",
    )
