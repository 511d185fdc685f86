"""``quiver.aio.open``: the store's worker begins by opening its store."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any

from quiver import engine
from quiver.aio.call import ask
from quiver.aio.store import AsyncStore
from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk
from quiver.engine import Store
from quiver.engine.worker import Worker
from quiver.slots import Slot, SlotTable

__all__ = ["Opening", "open"]


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    slots: SlotTable | Mapping[str, int] | Iterable[str | Slot] | None = None,
    config: Config | Mapping[str, Any] | None = None,
    core: int = 0,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> Opening:
    """Open the store in folder ``path``, as ``quiver.open`` does, without blocking the event loop.

    ``async with quiver.aio.open(...) as store`` closes it at the end; ``await`` gives a store to be
    closed by the caller. The recovery runs in the store's worker, which begins with it.
    """

    def act() -> Store:
        return engine.open(
            path, slots=slots, config=config, core=core, clock=clock, disk=disk, worker=False
        )

    return Opening(act)


class Opening:
    """A store that is about to be opened: nothing is done before it is awaited or entered."""

    def __init__(self, act: Callable[[], Store]) -> None:
        self._act = act
        self._store: AsyncStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        """Open the store and give it. Cancelled in the middle, it is closed again."""
        return self._begin().__await__()

    async def _begin(self) -> AsyncStore:
        worker = Worker()

        def act() -> Store:
            store = self._act()
            store.employ(worker)
            return store

        try:
            return AsyncStore(await ask(worker, act, undo=Store.close))
        except BaseException:
            worker.dismiss()
            raise

    async def __aenter__(self) -> AsyncStore:
        """Open the store and give it."""
        self._store = await self
        return self._store

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.close()
