"""The folder of a core's inboxes, and what becomes of one whose subscriber goes."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import Final

from quiver.acks.inbox import Inbox
from quiver.acks.letterbox import (
    INBOX_FOLDER,
    holding,
    list_inbox,
    read_inbox,
    remove_inbox,
    write_inbox,
)
from quiver.engine.core import Core
from quiver.errors import DamagedEntry, DamageError, LockedError, StorageError, VersionError

__all__ = [
    "LOCK_SECONDS",
    "await_inbox",
    "check_lease",
    "forget_inbox",
    "inbox_folder",
    "tell_paused",
]

LOCK_SECONDS: Final = 1.0
"""How long a store waits for a consumer that is about to replace its inbox."""

_LEASES_AT_ONCE: Final = 1 << 32
"""An inbox cannot be further ahead of ack.log: each lease is a process that came."""


def inbox_folder(core_folder: str) -> str:
    """Name the folder of a core's inboxes."""
    return f"{core_folder}/acks/{INBOX_FOLDER}"


def check_lease(inbox: Inbox, known: int, *, place: str) -> None:
    """Raise DamagedEntry if nobody can have come to this lease; ``known`` is that of ack.log.

    Believed, the highest one there is would keep everybody out for ever.
    """
    if inbox.lease > known + _LEASES_AT_ONCE:
        raise DamagedEntry(
            "the inbox has a lease that nobody can have come to",
            path=place,
            expected=f"at most {known + _LEASES_AT_ONCE}",
            found=inbox.lease,
            hint="remove the file; what was done since it was last sound is delivered again",
        )


def forget_inbox(core: Core, name: str, *, only: Inbox | None = None) -> None:
    """Remove the inbox of a subscriber who is gone, or starts over.

    A process that still goes on as that subscriber learns of it when it misses the file. With
    ``only`` it stays if it is another one by now, or somebody is at it.
    """
    folder = inbox_folder(core.folder)
    if any(stat.name == name for stat in list_inbox(core.disk, folder)):
        with ExitStack() as stack:
            # Otherwise somebody who just looked would write it once more.
            try:
                stack.enter_context(holding(core.disk, folder, name, seconds=LOCK_SECONDS))
            except LockedError:
                if only is not None:
                    return
            if only is not None and only != _read(core, name):
                return
            remove_inbox(core.disk, folder, name)
    core.folded.pop(name, None)
    core.own_leases.discard(name)


def await_inbox(core: Core, name: str) -> None:
    """Wait, without the lock of the core, until nobody is at an inbox, if there is one.

    Whoever is at it replaces it, which takes milliseconds. Raises LockedError if that goes on.
    """
    folder = inbox_folder(core.folder)
    if any(stat.name == name for stat in list_inbox(core.disk, folder)):
        with holding(core.disk, folder, name, seconds=LOCK_SECONDS):
            pass


def tell_paused(core: Core, name: str) -> bool:
    """Say in an inbox that its subscriber is paused, or goes on; False if somebody is at it.

    A process that goes on as that subscriber sees the file change.
    """
    folder, paused = inbox_folder(core.folder), core.registry.member(name).paused
    try:
        with holding(core.disk, folder, name, seconds=0):
            inbox = _read(core, name)
            if inbox is not None and inbox.paused != paused:
                write_inbox(core.disk, folder, dataclasses.replace(inbox, paused=paused))
    except LockedError:
        return False
    return True


def _read(core: Core, name: str) -> Inbox | None:
    try:
        return read_inbox(
            core.disk, inbox_folder(core.folder), name, store_id=core.manifest.store_id
        )
    except (DamageError, VersionError, StorageError):
        return None
