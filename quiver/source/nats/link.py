"""One connection to NATS, asked from threads: its event loop runs while somebody asks.

It does not reconnect. Who loses it makes another one, and goes on from a state.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from quiver.errors import ClosedError, ConfigError, SourceError

__all__ = ["Link"]

_T = TypeVar("_T")

_CONNECT_SECONDS: Final = 10
_AGAIN_SECONDS: Final = 0.05
"""Between two tries to connect, and two to cancel; who makes readers waits for the next itself."""


class Link:
    """A connection; one thread at a time asks, any may close it, which wakes who asks."""

    def __init__(
        self, servers: Sequence[str], options: Mapping[str, object], split: str = ""
    ) -> None:
        """Connect; raises SourceError, or ConfigError if the extra is not installed."""
        try:
            import nats
            import nats.errors
        except ImportError as error:
            raise ConfigError(
                "the connector nats needs the package nats-py",
                hint="pip install 'quiver-store[nats]'",
            ) from error
        self._faults = (nats.errors.Error, OSError, asyncio.TimeoutError)
        self._split = split
        self._servers = list(servers)
        self._busy = threading.Lock()
        self._state = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        settings: dict[str, Any] = {
            "connect_timeout": _CONNECT_SECONDS,
            **options,
            "servers": self._servers,
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": _AGAIN_SECONDS,
            "error_cb": _silent,
        }
        try:
            self.connection: Any = self.ask(lambda: nats.connect(**settings))
        except BaseException:
            self._loop.close()
            raise

    def ask(self, question: Callable[[], Awaitable[_T]]) -> _T:
        """Run a coroutine to its end; raises SourceError if the server does not answer as hoped.

        After a close, or one meanwhile, it raises ClosedError.
        """
        with self._busy:
            with self._state:
                if self._is_closed:
                    raise _closed()
                self._task = self._loop.create_task(_awaited(question))
            try:
                return self._loop.run_until_complete(self._task)
            except asyncio.CancelledError as error:
                raise _closed() from error
            except self._faults as error:
                text = str(error) or type(error).__name__
                raise SourceError(
                    f"NATS at {', '.join(self._servers)}: {text}",
                    split=self._split,
                    retryable=True,
                    hint="is the server there, and JetStream on (nats-server -js)?",
                ) from error
            finally:
                with self._state:
                    self._task = None

    def close(self) -> None:
        """Wake who asks and disconnect; a second call does nothing."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = True
            if self._task is not None:
                self._loop.call_soon_threadsafe(self._cancel, self._task)
        with self._busy:
            try:
                self._loop.run_until_complete(_disconnected(self.connection, self._faults))
            finally:
                self._loop.close()

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel it until it ends: wait_for of Python 3.11 forgets one that meets an answer."""
        if not task.done():
            task.cancel()
            self._loop.call_later(_AGAIN_SECONDS, self._cancel, task)


def _closed() -> ClosedError:
    return ClosedError("the reader is closed", hint="make another one from its state")


async def _awaited(question: Callable[[], Awaitable[_T]]) -> _T:
    return await question()


async def _disconnected(connection: Any, faults: tuple[type[BaseException], ...]) -> None:  # noqa: ANN401
    """Close the connection and everything that still runs for it."""
    with contextlib.suppress(*faults):  # It may be gone already.
        await connection.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _silent(error: Exception) -> None:
    """Whoever asks next gets it; nats-py would print it as well."""
