"""What obstore raises, said as one of our errors.

Its messages show addresses, and addresses may have signatures in them: of each we take the status,
the store's own word for it, and the system's reason, and nothing else. For the same reason ours do
not name it as their cause.
"""

from __future__ import annotations

import re
from typing import Final

from quiver.errors import MissingError, QuiverError, RemoteError
from quiver.ship.objects.bucket import Conflict, UnclearError

__all__ = ["as_ours", "is_missing", "is_unmodified"]

_STATUS: Final = re.compile(r"status code: ([1-5][0-9]{2})")
_WORD: Final = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_SYSTEM: Final = re.compile(r'message: "([A-Za-z ,]{1,80})"')
_ADDRESS: Final = re.compile(r"[a-z0-9+]{2,}://\S*", re.IGNORECASE)
_LETTERS_MAX: Final = 200

_NO_CONTAINER: Final = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_TIMEOUT, _BUSY, _SERVER = 408, 429, 500

_MACHINE: Final = ("169.254.169.254", "metadata.google.internal", "169.254.170.2")
"""Where credentials are asked for when none were given."""

_SETTINGS: Final = ("builder error", "Generic Config error", "InvalidAccessKey", "SasComponent")


def is_missing(error: BaseException) -> bool:
    """Whether an object is not there, in a store that is."""
    return isinstance(error, FileNotFoundError) and _word(str(error)) not in _NO_CONTAINER


def is_unmodified(error: BaseException) -> bool:
    """Whether an object still is what it was."""
    return type(error).__name__ == "NotModifiedError"


def as_ours(
    error: BaseException, act: str, *, path: str, place: str, conditional: bool = False
) -> QuiverError:
    """Say that a store would not ``act`` on ``path``; ``conditional`` if the act was a put_if."""
    name = type(error).__name__
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return _not_found(text, act, path=path, place=place)
    if name in ("AlreadyExistsError", "PreconditionError"):
        if conditional:
            return Conflict(f"{path} in {place} is not the one that was read", path=path)
        reason = "somebody else changes it"
        return RemoteError(_message(act, path, place, reason), path=path, retryable=True)
    if name in ("PermissionDeniedError", "UnauthenticatedError"):
        reason = _word(text) or "access denied"
        hint = "look at the credentials, the region, and what they may do here"
        return RemoteError(_message(act, path, place, reason), path=path, hint=hint)
    if name in ("GenericError", "JoinError") or isinstance(error, OSError):
        return _generic(text, act, path=path, place=place)
    reason = f"{name}: {_plain(text)}"
    return RemoteError(_message(act, path, place, reason), path=path)


def _not_found(text: str, act: str, *, path: str, place: str) -> QuiverError:
    if _word(text) in _NO_CONTAINER:
        message = _message(act, path, place, "there is no such bucket")
        return RemoteError(message, path=path, hint="make the bucket first, or look at its name")
    if act == "read":
        return MissingError(f"there is no {path} in {place}", path=path)
    return RemoteError(_message(act, path, place, "not found"), path=path)


def _generic(text: str, act: str, *, path: str, place: str) -> QuiverError:
    if any(host in text for host in _MACHINE):
        reason = "there are no credentials, and this machine gives none"
        hint = "give them as options or in the environment, or skip_signature"
        return RemoteError(_message(act, path, place, reason), path=path, hint=hint)
    if any(mark in text for mark in _SETTINGS):
        return RemoteError(_message(act, path, place, _plain(text)), path=path)
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if not status:
        system = _SYSTEM.search(text)
        reason = f"no answer: {system[1] if system else _plain(text)}"
        return UnclearError(_message(act, path, place, reason), path=path, retryable=True)
    word = _word(text)
    reason = f"status {status}" + (f", {word}" if word else "")
    message = _message(act, path, place, reason)
    if status >= _SERVER or status == _TIMEOUT:
        return UnclearError(message, path=path, retryable=True)
    return RemoteError(message, path=path, retryable=status == _BUSY)


def _message(act: str, path: str, place: str, reason: str) -> str:
    return f"cannot {act} {path} in {place}: {reason}"


def _word(text: str) -> str:
    found = _WORD.search(text)
    return found[1] if found else ""


def _plain(text: str) -> str:
    """Take the end of the first line, without addresses."""
    line = text.partition("\n")[0].rpartition(" - ")[2]
    return _ADDRESS.sub("...", line)[:_LETTERS_MAX]
