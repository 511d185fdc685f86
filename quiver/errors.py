"""Every error that Quiver raises: few, coarse, each with coordinates and a hint of what to do.

::

    QuiverError                       .hint  .retryable
    |- InputError (ValueError)        a value the caller passed cannot be taken; nothing was written
    |  |- ConfigError                 an option is wrong; names its key path
    |  '- OutOfSequenceError          a time below the last one; .partition .last .given
    |- StorageError (OSError)         the operating system refused; .path .errno
    |  |- MissingError (FileNotFoundError)   no store, segment, file or object there
    |  '- RemoteError                  an object store refused, or gave no answer
    |- DamageError                    bytes on disk are wrong; .path .offset .expected .found
    |  |- TornEntry                   they end early: normal at the tail of a log after a crash
    |  '- DamagedEntry                they are all there and wrong
    |- VersionError                   a newer format, or a store laid out for another slot table
    |- CapacityError                  no room by configuration or on the disk; retry later
    |- LockedError                    another writer has the store; .pid
    |- FencedError                    somebody newer has taken over; .epoch .current
    |- ClosedError                    used after close, or in a forked child
    |  '- PoisonedError               a sync failed earlier: re-open to learn what survived
    |- SourceError                    what a source reads is gone, changed or out of reach; .split
    |- SubscriberError (LookupError)  unknown subscriber, bad name, bundle already resolved
    '- WaitTimeoutError (TimeoutError)  what was waited for has not happened yet; ask again

Catch ``QuiverError`` for all of them. ``retryable`` says whether the same call may work later
without a change of its arguments.
"""

from __future__ import annotations

__all__ = [
    "CapacityError",
    "ClosedError",
    "ConfigError",
    "DamageError",
    "DamagedEntry",
    "FencedError",
    "InputError",
    "LockedError",
    "MissingError",
    "OutOfSequenceError",
    "PoisonedError",
    "QuiverError",
    "RemoteError",
    "SourceError",
    "StorageError",
    "SubscriberError",
    "TornEntry",
    "VersionError",
    "WaitTimeoutError",
]


class QuiverError(Exception):
    """The root of every error of this package."""

    retryable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Give the message, and the hint behind it when there is one."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(QuiverError, ValueError):
    """A value passed by the caller cannot be taken; nothing was written."""


class ConfigError(InputError):
    """An option is unknown, mistyped or out of range; the message names its key path."""


class OutOfSequenceError(InputError):
    """A time is below one that its partition has already; both in nanoseconds since 1970."""

    def __init__(
        self,
        message: str,
        *,
        partition: int | str = 0,
        last: int = 0,
        given: int = 0,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.partition = partition
        self.last = last
        self.given = given


class StorageError(QuiverError, OSError):
    """The operating system refused an act on ``path``."""

    def __init__(self, message: str, *, path: str = "", errno: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.errno = errno or None

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes with the errno, which OSError keeps out of ``__dict__``."""
        return type(self), self.args, {**vars(self), "errno": self.errno}


class MissingError(StorageError, FileNotFoundError):
    """There is no store, segment, file or object at ``path``."""


class RemoteError(StorageError):
    """An object store refused an act on ``path``, or gave no answer that says whether it was done.

    ``retryable`` is set where the same call may work later.
    """

    def __init__(
        self, message: str, *, path: str = "", retryable: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.retryable = retryable


class DamageError(QuiverError):
    """Bytes on disk are not what they must be.

    ``offset`` is the byte in ``path`` at which the damaged item starts. Pure format code does not
    know the path and leaves it empty; whoever read the bytes fills it in with ``at``.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        offset: int = 0,
        expected: object = None,
        found: object = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found

    @staticmethod
    def comparison(expected: object, found: object) -> str:
        """Say behind a message what was expected and found, as far as either is known."""
        known = {"expected": expected, "found": found}
        parts = [f"{name} {value}" for name, value in known.items() if value is not None]
        return f": {', '.join(parts)}" if parts else ""

    def at(self, path: str, *, base: int = 0) -> DamageError:
        """Return the same error with its file named and ``base`` added to its offset."""
        return type(self)(
            self.message,
            path=path,
            offset=base + self.offset,
            expected=self.expected,
            found=self.found,
            hint=self.hint,
        )

    def __str__(self) -> str:
        """Give message, place, what was expected and found, and the hint."""
        text = self.message
        if self.path:
            text += f" in {self.path} at byte {self.offset:,}"
        text += self.comparison(self.expected, self.found)
        return f"{text} ({self.hint})" if self.hint else text


class TornEntry(DamageError):
    """An item ends before its own length says: what a crash during an append leaves behind."""


class DamagedEntry(DamageError):
    """An item is whole but its checksum or structure is wrong."""


class VersionError(QuiverError):
    """The store was written by a newer format, or for another slot table."""


class CapacityError(QuiverError):
    """There is no room, by configuration or on the disk; nothing was taken."""

    retryable = True


class LockedError(QuiverError):
    """Another writer holds the core directory; ``pid`` is its process, 0 if it is not known."""

    retryable = True

    def __init__(self, message: str, *, pid: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class FencedError(QuiverError):
    """Somebody newer has taken over: ``epoch`` is ours, ``current`` the one that holds now."""

    def __init__(self, message: str, *, epoch: int = 0, current: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.epoch = epoch
        self.current = current


class ClosedError(QuiverError):
    """The store was used after ``close``, or in a process that inherited it by fork."""


class PoisonedError(ClosedError):
    """A sync failed earlier, so the state of the disk is unknown: close and open again."""


class SourceError(QuiverError):
    """What a source reads is gone, is not what it was, or cannot be reached.

    ``split`` is the id of the split, empty if it is about the source as a whole. If it is
    ``retryable``, a reader made anew from the same state may get on.
    """

    def __init__(
        self, message: str, *, split: str = "", retryable: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.split = split
        self.retryable = retryable


class SubscriberError(QuiverError, LookupError):
    """A subscriber or its name is unknown or bad, or a bundle was resolved before."""


class WaitTimeoutError(QuiverError, TimeoutError):
    """What was waited for did not happen in time; it was not called off, and may be asked again."""

    retryable = True
