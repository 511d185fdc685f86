"""``quiver.aio.open``: the store's worker begins by opening its store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeAlias

from quiver import engine
from quiver.aio.call import ask
from quiver.aio.store import AsyncStore
from quiver.clock import Clock
from quiver.config_file import ConfigLike
from quiver.disk import Disk
from quiver.engine import RecoveryProgress, Store
from quiver.engine.worker import Worker
from quiver.slots import Slot, SlotTable

__all__ = ["Opening", "open"]

Progress: TypeAlias = Callable[[RecoveryProgress], None]


def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    slots: SlotTable | Mapping[str, int] | Iterable[str | Slot] | None = None,
    config: ConfigLike = None,
    core: int | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
    progress: Progress | None = None,
) -> Opening:
    """Open the store in folder ``path``, as ``quiver.open`` does, without blocking the event loop.

    ``async with quiver.aio.open(...) as store`` closes it at the end; ``await`` gives a store to be
    closed by the caller. The recovery runs in the store's worker, which begins with it;
    ``progress`` is called in the event loop, and for the last time before the store is there.
    """

    def act(watch: Progress | None) -> Store:
        return engine.open(
            path,
            slots=slots,
            config=config,
            core=core,
            clock=clock,
            disk=disk,
            worker=False,
            progress=watch,
        )

    return Opening(act, progress)


class Opening:
    """A store that is about to be opened: nothing is done before it is awaited or entered."""

    def __init__(self, act: Callable[[Progress | None], Store], progress: Progress | None) -> None:
        self._act = act
        self._progress = progress
        self._store: AsyncStore | None = None

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        """Open the store and give it. Cancelled in the middle, it is closed again."""
        return self._begin().__await__()

    async def _begin(self) -> AsyncStore:
        worker = Worker()
        loop, progress = asyncio.get_running_loop(), self._progress

        def tell(done: RecoveryProgress) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done)

        def act() -> Store:
            store = self._act(None if progress is None else tell)
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
