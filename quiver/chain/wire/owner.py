"""Whether this is the process that made something: what has threads of gRPC survives no fork."""

from __future__ import annotations

import os

from quiver.errors import ClosedError

__all__ = ["Owner"]


class Owner:
    """Remembers a process."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        """Raise ClosedError in a forked child."""
        if os.getpid() != self._process:
            raise ClosedError(
                "the connection was made in another process and came here by fork",
                hint="connect after forking",
            )
