"""What a chain asks of the place of its metadata; less than a ``Bucket`` gives.

==========  =====================================================================
act         when it returns
==========  =====================================================================
cas         the object is durable, every read that starts later sees it, and nothing was put
            between the one that ``revision`` names and this one
get         what was put by the last cas that ended before it began, or a later one
delete      reads that start later do not find it
==========  =====================================================================

A cas that raises ``Conflict`` or ``UnclearError`` may all the same have been done, or, after
``UnclearError``, be done yet: ``swap`` finds out. Some places make a revision of the bytes alone,
so no two states of an object may have the same bytes: all that is put here has a counter in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from quiver.clock import Clock
from quiver.disk import Bytes
from quiver.errors import InputError, MissingError
from quiver.ship.objects import Conflict, UnclearError

__all__ = ["DATA_BYTES_MAX", "Kept", "Metadata", "Revision", "check_data", "swap"]

DATA_BYTES_MAX: Final = 1 << 20
"""Of one object. etcd takes 1.5 MiB with all that is around it, unless it was told otherwise."""

Revision: TypeAlias = str
"""Names one state of one object; opaque."""

_TRIES: Final = 5
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Kept:
    """An object as it was read."""

    data: bytes
    revision: Revision


class Metadata(Protocol):
    """One place, or one path in it. Safe for many threads."""

    @property
    def place(self) -> str:
        """Its address as messages show it, without credentials."""
        ...

    def get(self, key: str) -> Kept:
        """Read an object. Raises MissingError, RemoteError, UnclearError."""
        ...

    def peek(self, key: str) -> bytes:
        """Read what an object is just now, which a power cut may take back. Raises as ``get`` does.

        For what is said anew each second: to read in a folder is to sync it, for everybody there.
        """
        ...

    def cas(self, key: str, revision: Revision | None, data: Bytes) -> Revision:
        """Put an object if ``revision`` names what is there; None: only if nothing is.

        Raises Conflict, UnclearError, RemoteError, and InputError for more than ``DATA_BYTES_MAX``.
        """
        ...

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with ``prefix``, sorted.

        One that was there all the while is among them.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete an object; one that is missing is deleted."""
        ...


def check_data(key: str, data: Bytes) -> bytes:
    """Give what is to be put as bytes; raises InputError if it is too much."""
    size = memoryview(data).nbytes
    if size > DATA_BYTES_MAX:
        raise InputError(f"{key} would have {size:,} bytes, the most is {DATA_BYTES_MAX:,}")
    return bytes(data)


def swap(metadata: Metadata, key: str, was: Kept | None, *, data: bytes, clock: Clock) -> bool:
    """Put an object in the place of ``was``, and know whether that was done.

    False: somebody else was first, or has put something over it since; read again. An answer that
    does not come is asked for by the same cas, which is done once however often it arrives; after
    five of them UnclearError says that nobody knows.
    """
    revision = was.revision if was else None
    for left in reversed(range(_TRIES)):
        try:
            metadata.cas(key, revision, data)
        except Conflict:
            return _is_there(metadata, key, data)
        except UnclearError:
            if not left:
                raise
            clock.pause(_PAUSE)
        else:
            return True
    raise AssertionError("unreachable")  # pragma: no cover


def _is_there(metadata: Metadata, key: str, data: bytes) -> bool:
    try:
        return metadata.get(key).data == data
    except MissingError:
        return False
