"""Bundles awaited: who is woken, what ends the waiting, and how a block gives its outcome."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aio_kit import fill, number_of, open_async, turns
from gated_disk import PATIENCE, GatedDisk
from store_kit import SLOTS, bundle, numbers

import quiver
from quiver.aio import AsyncStore
from quiver.engine import Subscription
from quiver.testing import ManualClock


def test_a_loop_over_a_subscription_gets_all_and_ends_with_the_store(disk: GatedDisk) -> None:
    async def main() -> None:
        store = await open_async(disk)
        subscription = await fill(store, 0, 1)
        found = []

        async def read() -> None:
            async for handle in subscription:
                found.append(await number_of(handle))
                if len(found) == 4:
                    await store.close()

        reading = asyncio.create_task(read())
        await fill(store, 2, 3)
        await reading
        assert found == [0, 1, 2, 3]

    asyncio.run(main())


def test_a_task_that_waits_is_woken_by_another_thread(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await store.subscribe("reader")
            waiting = asyncio.create_task(subscription.next())
            while not store.store._core.listeners._listeners.keys() - {store.store._commit.settle}:
                await store.info()

            def write() -> None:
                store.store.append(bundle(7))
                store.store.finalize()

            await asyncio.to_thread(write)
            assert await number_of(await waiting) == 7

    asyncio.run(main())


def test_poll_and_a_timeout_give_nothing_if_there_is_nothing(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await store.subscribe("reader")
            assert await subscription.poll() is None
            for timeout in (0, "1ms", 0.001):
                assert await subscription.next(timeout) is None
            with pytest.raises(quiver.InputError, match="timeout"):
                await subscription.next("soon")
            await fill(store, 0, 1)
            assert await number_of(await subscription.poll()) == 0
            assert await number_of(await subscription.next(0)) == 1
            assert repr(subscription) == "AsyncSubscription('reader')"
            assert len(store.store._core.listeners._listeners) == 1  # The commit itself.

    asyncio.run(main())


def test_a_bundle_comes_again_when_the_time_of_its_retry_has_come(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await fill(store, 3)
            handle = await subscription.next()
            await handle.nack(retry_after="20ms")
            again = await subscription.next("1h")
            assert again.attempt == 2
            assert await number_of(again) == 3

    asyncio.run(main())


def test_closing_a_subscription_ends_all_who_wait_on_it_alone(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription, other = [await store.subscribe("reader") for _ in range(2)]
            tasks = [asyncio.create_task(subscription.next()) for _ in range(3)]
            going_on = asyncio.create_task(other.next())
            await turns()
            await subscription.close()
            assert await asyncio.gather(*tasks) == [None] * 3
            assert await subscription.next() is None
            await fill(store, 5)
            assert await number_of(await going_on) == 5

    asyncio.run(main())


def test_a_poisoned_store_ends_the_waiting_with_its_error(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await store.subscribe("reader")
            disk.fail_syncs_of_the_log()
            with pytest.raises(quiver.PoisonedError):
                await store.append(bundle(0))
            for act in (subscription.next, subscription.poll, subscription.__anext__):
                with pytest.raises(quiver.PoisonedError):
                    await act()

    asyncio.run(main())


def test_the_end_of_a_block_is_the_outcome(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await fill(store, 0, 1, 2)
            async with await subscription.next() as first:
                assert (first.segment_seq, first.bundle_index, first.wal_seq) == (0, 0, 0)
                assert first.subscriber == "reader"
                assert first.ingestion_ns > 0
                assert len(first) == 2
                assert "notes" in first
                assert not first.resolved
            assert first.resolved
            assert "acked" in repr(first)
            with pytest.raises(quiver.SubscriberError):
                await first.ack()
            with pytest.raises(KeyError):
                async with await subscription.next() as second:
                    second["nothing"]
            assert "nacked" in repr(second)
            async with await subscription.next() as third:
                await third.defer()
            again = await subscription.next()
            assert (again.bundle_index, again.attempt) == (2, 1)
            assert again != third
            await again.ack()

    asyncio.run(main())


def test_a_block_that_is_cancelled_gives_its_bundle_back_at_once(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await fill(store, 0)
            inside = asyncio.Event()

            async def work() -> None:
                async with await subscription.next():
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await inside.wait()
            waiting = asyncio.create_task(subscription.next())
            task.cancel()
            handle = await waiting
            assert task.cancelled()
            assert handle.attempt == 1
            assert await number_of(handle) == 0

    asyncio.run(main())


def test_a_change_that_brings_nothing_costs_one_look(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        looks = []
        honest = Subscription.look

        def look(*args: Any) -> Any:
            looks.append(1)
            return honest(*args)

        monkeypatch.setattr(Subscription, "look", look)
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await store.subscribe("reader")
            task = asyncio.create_task(subscription.next())
            for expected in (1, 2):
                for _ in range(5):
                    await store.info()
                assert len(looks) == expected
                with store.store._core.lock:
                    store.store._core.announce()
        assert await task is None

    asyncio.run(main())


def test_tasks_of_two_loops_and_a_thread_share_one_position(disk: GatedDisk) -> None:
    with quiver.open("memory", slots=SLOTS, disk=disk) as store:
        for n in range(60):
            store.append(bundle(n))
        store.finalize()
        found: list[int] = []

        async def read() -> None:
            subscription = await AsyncStore(store).subscribe("reader")
            while (handle := await subscription.poll()) is not None:
                found.append(await number_of(handle))

        threads = [threading.Thread(target=asyncio.run, args=(read(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        found += numbers(store)
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(found) == list(range(60))
