"""Files in acks/inbox: left by subscribers in other processes, read by the store.

Whoever can write to the folder of a store can leave anything there under any name. So what is found
is believed only if it is a regular file of a size that is written, in a folder that is one, and
says whose it is: links are not followed, and nothing else is read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from quiver.acks.format import name_fault
from quiver.acks.inbox import INBOX_BYTES_MAX, Inbox, decode_inbox, encode_inbox
from quiver.disk import Disk, Stat, is_temporary, lock_within
from quiver.disk import remove as remove_name
from quiver.disk import replace as replace_file
from quiver.errors import (
    DamagedEntry,
    DamageError,
    InputError,
    LockedError,
    MissingError,
    StorageError,
)

__all__ = [
    "INBOX_FOLDER",
    "LOCK_SECONDS",
    "holding",
    "list_inbox",
    "read_inbox",
    "remove_inbox",
    "write_inbox",
]

INBOX_FOLDER: Final = "inbox"
"""Its name in the folder of the acks."""

LOCK_SECONDS: Final = 5.0
"""How long to wait for others who read, check and replace the same file; it takes milliseconds."""


def list_inbox(disk: Disk, folder: str) -> list[Stat]:
    """Give what may be an inbox, in order of name; none if there is no folder.

    What has another name than one a subscriber can have, and what is no regular file, is left out.
    Raises StorageError if the folder is none.
    """
    if not _has_folder(disk, folder):
        return []
    entries = disk.list_dir(folder)
    return [entry for entry in entries if entry.is_file and _fault(entry.name) is None]


def read_inbox(disk: Disk, folder: str, name: str, *, store_id: str) -> Inbox:
    """Read one file; raises MissingError if there is none.

    Raises DamageError if it is not what a subscriber of this name and store wrote, VersionError,
    StorageError if it is no regular file.
    """
    path = _path(folder, name)
    place = disk.locate(path)
    found = disk.stat(path) if _has_folder(disk, folder) else None
    if found is None:
        raise MissingError(f"there is no {place}", path=place)
    if not found.is_file:
        what = "a link, and links are not followed" if found.is_link else "not a regular file"
        raise StorageError(f"{place} is {what}", path=place)
    with closing(disk.open(path)) as file:
        data = file.read(0, INBOX_BYTES_MAX + 1)
    if len(data) > INBOX_BYTES_MAX:
        raise DamagedEntry(
            "the inbox is larger than any that is written",
            path=place,
            expected=f"at most {INBOX_BYTES_MAX:,} bytes",
            found=f"{max(found.size, len(data)):,}",
        )
    try:
        inbox = decode_inbox(data)
    except DamageError as error:
        raise error.at(place) from error
    if inbox.name != name:
        raise DamagedEntry(
            "the inbox is another subscriber's", path=place, expected=name, found=inbox.name
        )
    if inbox.store_id != store_id:
        raise DamagedEntry(
            "the inbox is of another store", path=place, expected=store_id, found=inbox.store_id
        )
    return inbox


def write_inbox(disk: Disk, folder: str, inbox: Inbox) -> None:
    """Replace the file of the subscriber; when this returns it survives a power cut.

    The folder is made if it is not there. Raises InputError if a reader would refuse the result.
    """
    data = encode_inbox(inbox)
    path = _path(folder, inbox.name)
    _make_folder(disk, folder)
    replace_file(disk, path, data)


def remove_inbox(disk: Disk, folder: str, name: str) -> None:
    """Remove the file of a subscriber, for good; nothing happens if there is none.

    Its lock file stays: somebody may hold it, and the next one would lock another.
    """
    path = _path(folder, name)
    if _has_folder(disk, folder):
        remove_name(disk, path)
        disk.sync_dir(folder)


@contextmanager
def holding(disk: Disk, folder: str, name: str, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Keep all others out who hold the same name: to read, check and replace its file as one act.

    Reading alone needs no lock. Raises LockedError if somebody else holds it all that time.
    """
    _path(folder, name)
    _make_folder(disk, folder)
    path = posixpath.join(folder, f".{name}.lock")
    try:
        lock = lock_within(disk, path, seconds)
    except LockedError as error:
        raise LockedError(
            f"{disk.locate(path)} is held by process {error.pid or 'unknown'}",
            pid=error.pid,
            hint="it should be free in a moment; a process that is stopped keeps it",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _fault(name: str) -> str | None:
    fault = name_fault(name)
    if fault is None and is_temporary(name):
        fault = "an inbox whose name ends like that of an unfinished file cannot be told from one"
    return fault


def _path(folder: str, name: str) -> str:
    fault = _fault(name)
    if fault is not None:
        raise InputError(f"{name!r} is not the name of an inbox: {fault}")
    return posixpath.join(folder, name)


def _make_folder(disk: Disk, folder: str) -> None:
    if not _has_folder(disk, folder):
        disk.make_dir(folder)
        disk.sync_dir(posixpath.dirname(folder))


def _has_folder(disk: Disk, folder: str) -> bool:
    """Whether it is there; raises StorageError if something else has its name."""
    found = disk.stat(folder)
    if found is not None and (found.is_file or found.is_link):
        what = "a link, and links are not followed" if found.is_link else "not a folder"
        raise StorageError(f"{disk.locate(folder)} is {what}", path=disk.locate(folder))
    return found is not None
