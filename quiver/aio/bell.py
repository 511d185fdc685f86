"""What wakes one task when there may be something new."""

from __future__ import annotations

import asyncio
import contextlib

from quiver.units import SECOND

__all__ = ["Bell"]


class Bell:
    """Rung from any thread; one task waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def silence(self) -> None:
        """Forget that it rang, before a look that sees all until then."""
        self._rung.clear()

    def ring(self) -> None:
        """Wake the task."""
        # RuntimeError: the loop is closed, and the task gone with it.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, rest_ns: int | None) -> None:
        """Return when it rings, or after so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if rest_ns is None else rest_ns / SECOND):
                await self._rung.wait()
