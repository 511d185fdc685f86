"""Opening and closing on an event loop: what waits is told, and nothing stays behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aio_kit import Arrivals, open_async, turns, workers
from gated_disk import PATIENCE, GatedDisk
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.engine import RecoveryProgress, Store


def test_closing_ends_what_waits_and_refuses_what_has_not_begun(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        store = await open_async(disk)
        subscription = await store.subscribe("reader")
        waiting = asyncio.create_task(subscription.next())
        disk.gate.shut()
        synced = asyncio.create_task(store.append(bundle(0)))
        await arrivals.next()
        closing = asyncio.create_task(store.close())
        await turns()
        late = asyncio.create_task(store.append(bundle(1)))
        await turns()
        disk.gate.open()
        await closing
        assert await synced == 0
        assert await waiting is None
        with pytest.raises(quiver.ClosedError):
            await late
        assert await subscription.next() is None
        with pytest.raises(quiver.ClosedError):
            await subscription.poll()
        await subscription.close()

    asyncio.run(main())


@pytest.mark.parametrize("begun", [True, False])
def test_a_close_goes_on_if_it_is_cancelled(disk: GatedDisk, *, begun: bool) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        store = await open_async(disk)
        await store.append(bundle(0), wait=False)
        disk.gate.shut(".qseg.tmp")
        busy = None if begun else asyncio.create_task(store.finalize())
        if busy is not None:
            await arrivals.next()
        closing = asyncio.create_task(store.close())
        await (arrivals.next() if begun else turns())
        while not closing.done():
            closing.cancel()
            await turns()
        disk.gate.open()
        if busy is not None:
            assert (await busy).bundle_count == 1

    asyncio.run(main())
    for thread in workers():
        thread.join(PATIENCE)
    assert not workers()
    assert numbers(on_memory(disk)) == [0]


def test_a_close_that_fails_says_so(disk: GatedDisk) -> None:
    async def main() -> None:
        store = await open_async(disk, wal={"durability": "segment"})
        await store.append(bundle(0))
        disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
        with pytest.raises(quiver.CapacityError):
            await store.close()
        assert store.closed

    asyncio.run(main())


def test_a_thread_that_closes_the_store_ends_the_tasks_of_a_loop(disk: GatedDisk) -> None:
    async def main() -> None:
        store = await open_async(disk)
        subscription = await store.subscribe("reader")
        tasks = [asyncio.create_task(subscription.next()) for _ in range(3)]
        receipt = await store.append(bundle(0), wait=False)
        await asyncio.to_thread(store.store.close)
        assert await asyncio.gather(*tasks) == [None] * 3
        assert await receipt == 0
        await store.close()

    asyncio.run(main())


def test_a_refused_opening_leaves_no_thread(tmp_path) -> None:
    async def main() -> None:
        with pytest.raises(quiver.MissingError):
            await quiver.aio.open(tmp_path / "nothing")
        with pytest.raises(quiver.InputError):
            async with quiver.aio.open(tmp_path / "nothing", core=-1):
                pytest.fail("it opened")

    asyncio.run(main())
    for thread in workers():
        thread.join(PATIENCE)
    assert not workers()


@pytest.mark.parametrize("moment", ["before", "while it runs"])
def test_an_opening_that_is_cancelled_leaves_the_store_free(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        began, go_on = asyncio.Event(), threading.Event()
        honest = Store.employ

        def employ(*args: Any) -> None:
            loop.call_soon_threadsafe(began.set)
            assert go_on.wait(PATIENCE)
            honest(*args)

        monkeypatch.setattr(Store, "employ", employ)

        async def enter() -> None:
            async with open_async(disk):
                pytest.fail("it opened")

        task = asyncio.create_task(enter())
        await (turns() if moment == "before" else began.wait())
        task.cancel()
        await turns()
        assert task.cancelled()
        go_on.set()

    asyncio.run(main())
    monkeypatch.undo()
    for thread in workers():
        thread.join(PATIENCE)
    assert not workers()
    on_memory(disk).close()


def test_a_recovery_tells_how_far_it_is_in_the_event_loop(disk: GatedDisk) -> None:
    with on_memory(disk) as store:
        store.append(bundle(0))
        store._core.held.release()
        store._closed = True
    told: list[tuple[RecoveryProgress, int]] = []

    async def main() -> None:
        def tell(done: RecoveryProgress) -> None:
            asyncio.get_running_loop()
            told.append((done, threading.get_ident()))

        async with quiver.aio.open("x", disk=disk, progress=tell):
            assert told

    asyncio.run(main())
    done, thread = told[-1]
    assert done.bundles == 1
    assert done.done_bytes == done.total_bytes > 0
    assert thread == threading.get_ident()
