"""Subscribers start over, get another name, or go; each step is durable before anybody is told.

What one of them did in another process is taken in, and its inbox removed, before a record is
written: an inbox may be from before its subscriber had an id, and one that a crash left behind the
record would count for whoever has the name then. What a crash leaves before the record is the old
subscriber, whole; a process that goes on as that one finds no inbox, and comes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quiver.acks import Lease, Pause, Record, Rename, Unregister
from quiver.acks.letterbox import holding, remove_inbox
from quiver.engine.core import Core
from quiver.engine.fold import take_in
from quiver.engine.inboxes import has_inbox, inbox_folder
from quiver.engine.lifecycle import enter, find_position
from quiver.engine.space import sync_acks
from quiver.engine.start import Start
from quiver.errors import SubscriberError
from quiver.subscriber import check_name

__all__ = ["rename", "reset", "unregister"]


def reset(core: Core, name: str, start: Start = "earliest") -> None:
    """Let a subscriber start over; what it has in hands is of no effect any more.

    It gets a new id, so that nothing that was said under the old one counts, and its dead letters
    are counted anew; the lease goes on, and who is paused stays so.

    Raises LockedError, as the others do, if a process is just about to replace the inbox.
    """
    core.check()
    core.registry.member(name)
    position = find_position(core, start)
    with _without_inbox(core, name, lenient=True):
        before, now = core.registry.member(name), core.clock.wall_ns()
        with core.whole():
            subscriber_id = core.registry.next_id()
            more: list[Record] = []
            if before.lease:
                more.append(Lease(subscriber_id, before.lease, now))
            if before.paused:
                more.append(Pause(subscriber_id, now, paused=True))
            enter(core, subscriber_id, name, position=position, more=more)
            core.announce()
    core.events.info("subscriber.reset", subscriber=name, segment_seq_first=position.segment_seq)


def unregister(core: Core, name: str) -> None:
    """Forget a subscriber; what only it still needed may be deleted from now on."""
    core.check()
    subscriber_id = core.registry.member(name).subscriber_id
    with _without_inbox(core, name, lenient=True), core.whole():
        core.outlet.append([Unregister(subscriber_id, core.clock.wall_ns())])
        sync_acks(core)
        core.registry.unregister(name)
        core.announce()
    core.events.info("subscriber.unregistered", subscriber=name)


def rename(core: Core, name: str, new_name: str) -> None:
    """Let a subscriber go on under another name; subscriptions under the old one find nobody."""
    core.check()
    check_name(new_name)
    subscriber_id = core.registry.member(name).subscriber_id
    if new_name in core.registry:
        raise _taken(new_name)
    with holding(core.disk, inbox_folder(core.folder), new_name, seconds=0):
        if has_inbox(core, new_name):
            take_in(core, new_name)  # Somebody elsewhere may have asked for that name just now.
        if new_name in core.registry:
            raise _taken(new_name)
        with _without_inbox(core, name), core.whole():
            core.outlet.append([Rename(subscriber_id, new_name, core.clock.wall_ns())] * 2)
            sync_acks(core)
            core.registry.rename(name, new_name)
            core.announce()
    core.events.info("subscriber.renamed", subscriber=name, new_name=new_name)


def _taken(name: str) -> SubscriberError:
    return SubscriberError(f"there is a subscriber {name!r} already")


@contextmanager
def _without_inbox(core: Core, name: str, *, lenient: bool = False) -> Iterator[None]:
    """Take in what an inbox says, and remove it; nobody writes another one before this is over.

    With ``lenient`` a full disk is no obstacle: it may be to make room that somebody goes.
    """
    if not has_inbox(core, name):
        _let_go(core, name)
        yield
        return
    folder = inbox_folder(core.folder)
    with holding(core.disk, folder, name, seconds=0):
        take_in(core, name, lenient=lenient)
        remove_inbox(core.disk, folder, name)
        _let_go(core, name)
        yield


def _let_go(core: Core, name: str) -> None:
    core.folded.pop(name, None)
    core.refused_inboxes.pop(name, None)
    core.own_leases.discard(name)
