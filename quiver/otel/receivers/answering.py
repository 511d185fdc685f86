"""Answers on their way from the threads that know them to the event loop that gives them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted
from quiver.otel.receivers.refusal import Refusal
from quiver.otel.receivers.room import Ticket
from quiver.otel.signals import Signal

__all__ = ["Answer", "Answers", "Work"]

Answer: TypeAlias = Accepted | Refusal


def _future() -> asyncio.Future[Answer]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, kw_only=True)
class Work:
    """One request that is worked on; made on the event loop."""

    signal: Signal
    read: Callable[[], tuple[int, Sequence[Batch]]]
    ticket: Ticket
    began_ns: int
    plain: bytes = b""
    """The request itself, if it may be read with others."""
    size: int = 0
    batches: Sequence[Batch] = ()
    done: Accepted = field(default_factory=Accepted)
    answer: asyncio.Future[Answer] = field(default_factory=_future)
    turns: list[None] = field(default_factory=lambda: [None])

    def end(self) -> bool:
        """Whether it is this call, of all from any thread, that ends it."""
        try:
            self.turns.pop()
        except IndexError:
            return False
        return True


class Answers:
    """Many that are known at once, as behind a sync of the disk, wake the event loop once."""

    def __init__(self) -> None:
        """Expect none."""
        self._known: deque[tuple[asyncio.Future[Answer], Answer]] = deque()
        self._is_woken = False
        self._expected = 0
        self._given = asyncio.Event()

    def expect(self) -> None:
        """Expect one more, on the loop."""
        self._expected += 1

    def give(self, to: asyncio.Future[Answer], answer: Answer) -> None:
        """Give one, from any thread."""
        self._known.append((to, answer))
        # Who clears it looks afterwards, and so sees ours.
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # The loop was closed, and who waited went with it.
                to.get_loop().call_soon_threadsafe(self._give_all)

    def _give_all(self) -> None:
        self._is_woken = False
        while self._known:
            to, answer = self._known.popleft()
            self._expected -= 1
            if not to.done():  # Else its sender has gone.
                to.set_result(answer)
        self._given.set()

    async def all_given(self) -> None:
        """Return when all that were expected were given."""
        while self._expected:
            self._given.clear()
            await self._given.wait()
