"""One event loop in a thread of its own, in which all servers of a process run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from quiver.otel.receivers.desk import Door

__all__ = ["DRAIN_SECONDS", "Servers"]

T = TypeVar("T")

DRAIN_SECONDS: Final = 10.0
"""How long requests in work are waited for at the end, unless somebody says otherwise."""


class Servers:
    """Doors that are open, until they are closed at once. Safe to use from several threads.

    ::

        with Servers() as servers:
            servers.open(GrpcDoor(desk, settings), HttpDoor(desk, others))
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="quiver-servers", daemon=True)
        self._doors: list[Door] = []
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def open(self, *doors: Door) -> None:
        """Listen; those that were opened before one that fails stay open."""
        for door in doors:
            self._await(door.open())
            self._doors.append(door)

    def close(self, grace_seconds: float = DRAIN_SECONDS) -> None:
        """Close all doors, answer what is in work, and end; a second call does nothing.

        Behind this nobody calls their intakes any more, however long that takes.
        """
        if self._loop.is_closed():
            return
        self._await(self._close(grace_seconds))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self, grace_seconds: float) -> None:
        for door in self._doors:
            door.begin_closing()
        await asyncio.gather(*(door.close(grace_seconds) for door in self._doors))
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()

    def __enter__(self) -> Self:
        """Give the servers themselves."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all doors."""
        self.close()
