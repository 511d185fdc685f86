"""What a thread of a node says of an error that nobody reckoned with: it goes on all the same."""

from __future__ import annotations

import threading
from contextlib import suppress

from quiver.errors import QuiverError, RemoteError

__all__ = ["as_fault", "tell_stopped"]


def as_fault(error: Exception, what: str, *, node: str) -> QuiverError:
    """Give it as one of our errors; a thread that ended by it would take the node out of service.

    As when there is no memory for a moment: ``what`` was done by it stopped, and is done again.
    """
    if isinstance(error, QuiverError):
        return error
    text = f"{what} of {node} stopped: {type(error).__name__}: {error}"
    return RemoteError(text, path=node, retryable=True)


def tell_stopped(error: Exception) -> None:
    """Say of an error what is said when it ends a thread, though this one goes on."""
    with suppress(Exception):  # There may be no memory for that either.
        told = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(told))
