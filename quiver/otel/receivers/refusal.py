"""Why a request is refused, and how each protocol says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quiver.errors import CapacityError, ConfigError, InputError, QuiverError

__all__ = ["Reason", "Refusal", "TooLarge", "refusal_of"]

_MESSAGE_MAX: Final = 1000


class Reason(StrEnum):
    """Why; these are also the values of the label of its metric."""

    BUSY = "busy"
    CLOSING = "closing"
    FAILED = "failed"
    FULL = "full"
    MALFORMED = "malformed"
    NOT_FOUND = "not_found"
    SLOW = "slow"
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"


_RETRYABLE: Final = frozenset(
    {
        *(Reason.BUSY, Reason.CLOSING, Reason.FAILED, Reason.FULL, Reason.SLOW),
        Reason.UNAVAILABLE,
    }
)

# The numbers of google.rpc.Code, and the status of HTTP.
_INVALID_ARGUMENT, _NOT_FOUND, _RESOURCE_EXHAUSTED, _UNIMPLEMENTED = 3, 5, 8, 12
_UNAVAILABLE, _UNAUTHENTICATED = 14, 16

_CODES: Final[Mapping[Reason, tuple[int, int]]] = {
    Reason.BUSY: (_RESOURCE_EXHAUSTED, 429),
    Reason.CLOSING: (_UNAVAILABLE, 503),
    Reason.FAILED: (_UNAVAILABLE, 503),
    Reason.FULL: (_RESOURCE_EXHAUSTED, 429),
    Reason.MALFORMED: (_INVALID_ARGUMENT, 400),
    Reason.NOT_FOUND: (_NOT_FOUND, 404),
    Reason.SLOW: (_UNAVAILABLE, 503),
    Reason.TOO_LARGE: (_RESOURCE_EXHAUSTED, 413),
    Reason.UNAUTHORIZED: (_UNAUTHENTICATED, 401),
    Reason.UNAVAILABLE: (_UNAVAILABLE, 503),
    Reason.UNSUPPORTED: (_UNIMPLEMENTED, 415),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that was not taken."""

    reason: Reason
    message: str

    @property
    def is_retryable(self) -> bool:
        """Whether the sender is to send it again."""
        return self.reason in _RETRYABLE

    @property
    def code(self) -> int:
        """What ``google.rpc.Code`` calls it."""
        return _CODES[self.reason][0]

    @property
    def http_status(self) -> int:
        """What HTTP calls it."""
        return _CODES[self.reason][1]


class TooLarge(InputError):
    """It is larger than what is taken; nothing beyond that was put into memory."""


def refusal_of(error: Exception) -> Refusal:
    """Say what the sender is told of an error: of its own bytes all, of this machine nothing."""
    if isinstance(error, TooLarge):
        return Refusal(Reason.TOO_LARGE, error.message)
    if isinstance(error, InputError) and not isinstance(error, ConfigError):
        text = error.message[:_MESSAGE_MAX].encode("utf-8", "replace").decode()
        return Refusal(Reason.MALFORMED, text)
    if isinstance(error, CapacityError):
        return Refusal(Reason.FULL, "there is no room for it now")
    if isinstance(error, QuiverError):
        return Refusal(Reason.UNAVAILABLE, "it cannot be stored now")
    return Refusal(Reason.FAILED, "it could not be worked on")
