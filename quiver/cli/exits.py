"""What the command line's exit codes mean: one table, shown by ``quiver --help``."""

from __future__ import annotations

import errno
from typing import Final

from quiver.errors import (
    CapacityError,
    DamageError,
    FencedError,
    InputError,
    LockedError,
    MissingError,
    PoisonedError,
    QuiverError,
    RemoteError,
    SourceError,
    StorageError,
    SubscriberError,
    VersionError,
)

__all__ = ["BUG", "DAMAGED", "FOUND", "INTERRUPTED", "OK", "TABLE", "USAGE", "VERSION", "exit_code"]

OK: Final = 0
FOUND: Final = 1
USAGE: Final = 2
MISSING: Final = 3
LOCKED: Final = 4
VERSION: Final = 5
CAPACITY: Final = 6
REMOTE: Final = 7
STORAGE: Final = 8
DAMAGED: Final = 9
BUG: Final = 70
INTERRUPTED: Final = 130

TABLE: Final[dict[int, str]] = {
    OK: "fine",
    FOUND: "check or repair found damage",
    USAGE: "wrong usage, or input that cannot be taken",
    MISSING: "no store, or no such file in it",
    LOCKED: "another process is writing the store, or has taken over",
    VERSION: "a newer format, or another slot table",
    CAPACITY: "no room, by configuration or on the disk",
    REMOTE: "remote storage or another source cannot be reached",
    STORAGE: "the operating system refused",
    DAMAGED: "damage was met by another verb",
    BUG: "a fault of Quiver itself: please report it",
    INTERRUPTED: "interrupted",
}

_BY_KIND: Final[tuple[tuple[type[QuiverError], int], ...]] = (
    (InputError, USAGE),
    (SubscriberError, USAGE),
    (MissingError, MISSING),
    (LockedError, LOCKED),
    (FencedError, LOCKED),
    (VersionError, VERSION),
    (CapacityError, CAPACITY),
    (SourceError, REMOTE),
    (RemoteError, REMOTE),
    (StorageError, STORAGE),
    (PoisonedError, STORAGE),
    (DamageError, DAMAGED),
)


def exit_code(error: Exception) -> int:
    """Find the exit code of an error; what is neither ours nor the system's is a bug."""
    if isinstance(error, StorageError) and error.errno == errno.ENOTDIR:
        return MISSING
    for kind, code in _BY_KIND:
        if isinstance(error, kind):
            return code
    return STORAGE if isinstance(error, OSError) else BUG
