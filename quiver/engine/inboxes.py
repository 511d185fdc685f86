"""The folder of a core's inboxes, and what becomes of one whose subscriber goes."""

from __future__ import annotations

import dataclasses
from contextlib import closing, suppress
from typing import Final

from crc32c import crc32c

from quiver.acks.inbox import INBOX_BYTES_MAX, Inbox
from quiver.acks.letterbox import (
    INBOX_FOLDER,
    holding,
    list_inbox,
    read_inbox,
    remove_inbox,
    write_inbox,
)
from quiver.disk import Disk, copy_range
from quiver.engine.core import Core
from quiver.errors import (
    DamagedEntry,
    DamageError,
    LockedError,
    QuiverError,
    StorageError,
    VersionError,
)

__all__ = [
    "LOCK_SECONDS",
    "await_inbox",
    "check_lease",
    "forget_inbox",
    "has_inbox",
    "inbox_folder",
    "set_aside",
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
            hint="who subscribes under this name sets it aside; what it says is delivered again",
        )


def has_inbox(core: Core, name: str) -> bool:
    """Whether there is an inbox of that name."""
    folder = inbox_folder(core.folder)
    return any(stat.name == name for stat in list_inbox(core.disk, folder))


def forget_inbox(core: Core, inbox: Inbox) -> None:
    """Remove an inbox of nobody, unless it is another one by now, or somebody is at it.

    A process that still goes on as that subscriber learns of it when it misses the file.
    """
    folder, name = inbox_folder(core.folder), inbox.name
    with suppress(LockedError), holding(core.disk, folder, name, seconds=0):
        if inbox == _read(core, name):
            remove_inbox(core.disk, folder, name)
            core.folded.pop(name, None)
            core.own_leases.discard(name)


def set_aside(disk: Disk, core_folder: str, name: str, *, error: QuiverError) -> None:
    """Copy an inbox that cannot be believed to quarantine, then remove it; its lock is held."""
    folder = inbox_folder(core_folder)
    path = f"{folder}/{name}"
    if not isinstance(error, DamageError):
        error = DamagedEntry(error.message, path=disk.locate(path), hint=error.hint)
    with closing(disk.open(path)) as file:
        aside = f"inbox-{name}.{crc32c(file.read(0, INBOX_BYTES_MAX)):08x}"
        quarantine, end = f"{core_folder}/quarantine", file.size()
        copy_range(disk, quarantine, aside, file=file, offset=0, end=end, error=error)
    remove_inbox(disk, folder, name)


def await_inbox(core: Core, name: str) -> None:
    """Wait, without the lock of the core, until nobody is at an inbox, if there is one.

    Whoever is at it replaces it, which takes milliseconds. Raises LockedError if that goes on.
    """
    if has_inbox(core, name):
        with holding(core.disk, inbox_folder(core.folder), name, seconds=LOCK_SECONDS):
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
