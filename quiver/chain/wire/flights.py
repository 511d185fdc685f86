"""What Flight raises, said as one of our errors, and the other way."""

from __future__ import annotations

import re

import pyarrow as pa
from pyarrow import flight

from quiver.chain.wire.faults import from_text, to_text
from quiver.errors import ClosedError, PoisonedError, QuiverError, RemoteError

__all__ = ["FLIGHT_ERRORS", "as_flight", "as_quiver", "as_told"]

FLIGHT_ERRORS = (flight.FlightError, pa.ArrowException, OSError)
"""All that a call may raise. Some of Flight's are of none of its own classes."""

_LOST = (
    flight.FlightUnavailableError,
    flight.FlightTimedOutError,
    flight.FlightCancelledError,
    flight.FlightInternalError,
)
_WORDS = 300
_FLIGHTS_OWN = re.compile(
    r"^(Flight returned [a-z ]+ error, with message: )?"
    r"(failed to connect to all addresses; last error: [A-Z]+: )?"
)
"""What Flight and gRPC put before what happened."""


def as_told(error: Exception, node: str) -> QuiverError:
    """Give what a node tells of an error of its own."""
    if isinstance(error, ClosedError) and not isinstance(error, PoisonedError):
        return RemoteError(f"{node} is closing: {error}", path=node, retryable=True)
    if isinstance(error, QuiverError):
        return error
    if isinstance(error, OSError):
        return RemoteError(f"{node} cannot: {error}", path=node)
    return RemoteError(f"{node} failed with {type(error).__name__}: {error}", path=node)


def as_flight(error: Exception, node: str) -> flight.FlightError:
    """Give what Flight carries to the other side."""
    return flight.FlightServerError(to_text(as_told(error, node)))


def as_quiver(error: Exception, node: str) -> QuiverError:
    """Give what a call to a node raises."""
    if isinstance(error, QuiverError):
        return error
    text = str(error)
    if (told := from_text(text)) is not None:
        return told
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        hint = "give the token that its nodes were given"
        return RemoteError(f"{node} lets nobody in without its token", path=node, hint=hint)
    said = _FLIGHTS_OWN.sub("", " ".join(text.split()))[:_WORDS]
    if isinstance(error, _LOST):
        return RemoteError(f"{node} cannot be reached: {said}", path=node, retryable=True)
    return RemoteError(f"{node} says: {said}", path=node)
