"""What tests on an event loop need to know about other threads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from gated_disk import GatedDisk
from store_kit import SLOTS, bundle

import quiver
from quiver.aio import AsyncBundleHandle, AsyncStore, AsyncSubscription
from quiver.testing import MemoryDisk


def open_async(disk: MemoryDisk, *, clock: Any = None, **config: Any) -> quiver.aio.Opening:
    return quiver.aio.open("memory", slots=SLOTS, disk=disk, clock=clock, config=config)


def workers() -> list[threading.Thread]:
    """The workers of all stores that are open, and of those that are about to end."""
    return [thread for thread in threading.enumerate() if thread.name == "quiver-worker"]


async def turns(count: int = 5) -> None:
    """Let every task that can go on do so."""
    for _ in range(count):
        await asyncio.sleep(0)


class Arrivals:
    """Tells this loop of each sync that comes to the gate of a disk."""

    def __init__(self, disk: GatedDisk) -> None:
        loop = asyncio.get_running_loop()
        self._came = asyncio.Semaphore(0)

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._came.release)

        disk.gate.on_arrival = tell

    async def next(self) -> None:
        await self._came.acquire()


async def fill(store: AsyncStore, *found: int) -> AsyncSubscription:
    for n in found:
        await store.append(bundle(n))
    await store.finalize()
    return await store.subscribe("reader")


async def number_of(handle: AsyncBundleHandle | None) -> int:
    assert handle is not None
    async with handle:
        return handle["events"].column("n")[0].as_py()
