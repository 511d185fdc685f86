"""What obstore raises, said as one of our errors.

Its messages show addresses, and addresses may have signatures in them: of each we take the status,
the store's own word for it, and the system's reason, and nothing else. For the same reason ours do
not name it as their cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from quiver.errors import MissingError, QuiverError, RemoteError
from quiver.ship.objects.bucket import Conflict, UnclearError

__all__ = ["Act", "as_ours", "is_missing", "is_unmodified"]

_STATUS: Final = re.compile(r"status code: ([1-5][0-9]{2})")
_WORD: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_SYSTEM: Final = re.compile(r'message: "([A-Za-z ,]{1,80})"')
_ADDRESS: Final = re.compile(r"[a-z0-9+]{2,}://\S*", re.IGNORECASE)
_LETTERS_MAX: Final = 200

_NO_CONTAINER: Final = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_TIMEOUT, _BUSY, _SERVER, _NOT_IMPLEMENTED = 408, 429, 500, 501

_MACHINE: Final = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""Where credentials are asked for when none were given."""

_SETTINGS: Final = ("builder error", "Generic Config error", "Received redirect", "Header missing")
"""What a second try will not change."""


def is_missing(error: BaseException) -> bool:
    """Whether an object is not there, in a store that is."""
    return isinstance(error, FileNotFoundError) and _word(str(error)) not in _NO_CONTAINER


def is_unmodified(error: BaseException) -> bool:
    """Whether an object still is what it was."""
    return type(error).__name__ == "NotModifiedError"


@dataclass(frozen=True, slots=True)
class Act:
    """What was asked of a store: ``is_conditional`` if it may be refused for what is there."""

    verb: str
    path: str
    place: str
    is_conditional: bool = False

    def refused(self, reason: str) -> str:
        """Say that it was not done."""
        return f"cannot {self.verb} {self.path} in {self.place}: {reason}"


def as_ours(error: BaseException, act: Act) -> QuiverError:
    """Say that a store would not do what it was asked."""
    name = type(error).__name__
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return _not_found(text, act)
    if name in ("AlreadyExistsError", "PreconditionError"):
        if act.is_conditional:
            message = f"{act.path} in {act.place} is not the one that was read"
            return Conflict(message, path=act.path)
        message = act.refused("somebody else changes it")
        return RemoteError(message, path=act.path, retryable=True)
    if name in ("PermissionDeniedError", "UnauthenticatedError"):
        hint = (
            "look at the credentials and at what they may do; S3 also says so of an object that is "
            "not there, to who may not list"
        )
        message = act.refused(_word(text) or "access denied")
        return RemoteError(message, path=act.path, hint=hint)
    if name in ("GenericError", "JoinError") or isinstance(error, OSError):
        return _generic(text, act)
    return RemoteError(act.refused(f"{name}: {_plain(text)}"), path=act.path)


def _not_found(text: str, act: Act) -> QuiverError:
    if _word(text) in _NO_CONTAINER:
        hint = "make the bucket first, or look at its name"
        return RemoteError(act.refused("there is no such bucket"), path=act.path, hint=hint)
    if act.verb == "read":
        return MissingError(f"there is no {act.path} in {act.place}", path=act.path)
    return RemoteError(act.refused("not found"), path=act.path)


def _generic(text: str, act: Act) -> QuiverError:
    if any(host in text for host in _MACHINE):
        message = act.refused("there are no credentials, and this machine gives none")
        hint = "give them as options or in the environment, or skip_signature"
        return RemoteError(message, path=act.path, hint=hint)
    if any(mark in text for mark in _SETTINGS):
        return RemoteError(act.refused(_plain(text)), path=act.path)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if not status:
        system = _SYSTEM.search(text)
        known = "in time" if "TimedOut" in text else system[1] if system else ""
        reason = f"no answer, {known or _plain(text)}"
        return UnclearError(act.refused(reason), path=act.path, retryable=True)
    word = _word(text)
    message = act.refused(f"status {status}" + (f", {word}" if word else ""))
    if status != _NOT_IMPLEMENTED and (status >= _SERVER or status == _TIMEOUT):
        return UnclearError(message, path=act.path, retryable=True)
    return RemoteError(message, path=act.path, retryable=status == _BUSY)


def _word(text: str) -> str:
    found = _WORD.search(text)
    return found[1] if found else ""


def _plain(text: str) -> str:
    """Take the end of the first line, without addresses."""
    line = text.partition("\n")[0].rpartition(" - ")[2]
    return _ADDRESS.sub("...", line)[:_LETTERS_MAX]
