"""Wherever a task is cancelled, or its loop closed: no claim gets lost, no outcome either."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aio_kit import fill, number_of, open_async, turns
from gated_disk import PATIENCE, GatedDisk
from store_kit import SLOTS, bundle, numbers

import quiver
from quiver.aio import AsyncStore, AsyncSubscription
from quiver.aio.call import Call
from quiver.engine import delivery, lifecycle
from quiver.testing import ManualClock


class Held:
    """Claims, or other acts of the worker, that wait in the middle until they are let go."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        loop = asyncio.get_running_loop()
        self.began, self._go_on = asyncio.Event(), threading.Event()
        module = lifecycle if name == "register" else delivery
        honest = getattr(module, name)

        def act(*args: Any, **options: Any) -> Any:
            done = honest(*args, **options)
            loop.call_soon_threadsafe(self.began.set)
            assert self._go_on.wait(PATIENCE)
            return done

        patch.setattr(module, name, act)
        self._undo = lambda: patch.setattr(module, name, honest)

    def let_go(self) -> None:
        self._undo()
        self._go_on.set()


async def check_nothing_is_held(store: AsyncStore, task: asyncio.Task[Any], *left: int) -> None:
    """See a task cancelled, and every bundle offered at once, without waiting for any."""
    with pytest.raises(asyncio.CancelledError):
        await task
    subscription = await store.subscribe("reader")
    found = []
    while (handle := await subscription.poll()) is not None:
        found.append(await number_of(handle))
    assert found == list(left)
    gc.collect()  # A handle that got lost would warn now.


TAKES: list[Callable[[AsyncSubscription], Any]] = [
    lambda subscription: subscription.next(),
    lambda subscription: subscription.next("1h"),
    lambda subscription: subscription.poll(),
    lambda subscription: anext(aiter(subscription)),
]


async def take(subscription: AsyncSubscription, how: Callable[[AsyncSubscription], Any]) -> Any:
    return await how(subscription)


@pytest.mark.parametrize("how", TAKES, ids=["next", "next(1h)", "poll", "async for"])
def test_cancelled_before_the_claim_has_begun_claims_nothing(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch, how: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await fill(store, 0, 1)
            held = Held(monkeypatch, "register")
            busy = asyncio.create_task(store.subscribe("other"))
            await held.began.wait()
            task = asyncio.create_task(take(subscription, how))
            await turns()
            task.cancel()
            await turns()
            held.let_go()
            await busy
            await check_nothing_is_held(store, task, 0, 1)

    asyncio.run(main())


@pytest.mark.parametrize("how", TAKES, ids=["next", "next(1h)", "poll", "async for"])
def test_cancelled_in_the_middle_of_the_claim_gives_it_back(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch, how: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await fill(store, 0, 1)
            held = Held(monkeypatch, "claim")
            task = asyncio.create_task(take(subscription, how))
            await held.began.wait()
            task.cancel()
            await turns()
            held.let_go()
            await check_nothing_is_held(store, task, 0, 1)

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before it is woken", "when it is woken"])
@pytest.mark.parametrize("how", TAKES, ids=["next", "next(1h)", "poll", "async for"])
def test_cancelled_behind_the_claim_gives_it_back(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch, how: Callable[..., Any], when: str
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await fill(store, 0, 1)
            ended = threading.Event()
            honest = Call.run

            def run(call: Any) -> None:
                honest(call)
                ended.set()

            task = asyncio.create_task(take(subscription, how))
            with monkeypatch.context() as patch:
                patch.setattr(Call, "run", run)
                await asyncio.sleep(0)  # The task asks, and ...
                assert ended.wait(PATIENCE)  # ... is answered before this loop goes on.
            if when == "before it is woken":
                task.cancel()
            else:
                loop.call_soon(task.cancel)
            await check_nothing_is_held(store, task, 0, 1)

    asyncio.run(main())


def test_cancelled_while_it_waits_for_a_bundle_leaves_nothing_behind(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await store.subscribe("reader")
            tasks = [asyncio.create_task(take(subscription, how)) for how in (TAKES[0], TAKES[1])]
            for _ in range(3):
                await store.info()
            for task in tasks:
                task.cancel()
            await turns()
            assert len(store.store._core.listeners._listeners) == 1  # The commit itself.
            await fill(store, 4)
            for task, left in zip(tasks, [[4], []], strict=True):
                await check_nothing_is_held(store, task, *left)

    asyncio.run(main())


def test_a_loop_that_is_closed_in_the_middle_of_a_claim_loses_nothing(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quiver.open("memory", slots=SLOTS, disk=disk) as store:
        store.append(bundle(0))
        store.finalize()
        loop = asyncio.new_event_loop()

        async def begin() -> tuple[Held, asyncio.Task[Any]]:
            subscription = await AsyncStore(store).subscribe("reader")
            held = Held(monkeypatch, "claim")
            task = asyncio.create_task(subscription.next())
            await held.began.wait()
            return held, task

        held, task = loop.run_until_complete(begin())
        loop.close()
        held.let_go()
        assert asyncio.run(number_after(AsyncStore(store))) == 0
        task._log_destroy_pending = False  # It is meant to be thrown away.
        del task
        gc.collect()
        assert numbers(store) == []


async def number_after(store: AsyncStore) -> int:
    return await number_of(await (await store.subscribe("reader")).poll())


@pytest.mark.parametrize("outcome", ["ack", "nack"])
def test_an_outcome_that_was_asked_for_is_given_although_its_task_is_cancelled(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    async def main() -> None:
        async with open_async(disk, clock=ManualClock()) as store:
            subscription = await fill(store, 0, 1)
            handle = await subscription.next()
            held = Held(monkeypatch, "register")
            busy = asyncio.create_task(store.subscribe("other"))
            await held.began.wait()

            async def work() -> None:
                async with handle:
                    if outcome == "nack":
                        raise ValueError("it failed")

            task = asyncio.create_task(work())
            await turns()
            task.cancel()
            await turns()
            held.let_go()
            await busy
            await check_nothing_is_held(store, task, 1)
            assert f"{outcome}ed" in repr(handle)

    asyncio.run(main())


def test_a_next_that_is_cancelled_behind_a_lock_is_called_by_nobody_later(disk: GatedDisk) -> None:
    async def main() -> None:
        store = await open_async(disk)
        subscription = await store.subscribe("reader")
        core = store.store._core
        before = len(core.listeners._listeners)
        for _ in range(5):
            held, go = threading.Event(), threading.Event()

            def hold(held: threading.Event = held, go: threading.Event = go) -> None:
                with core.lock:
                    held.set()
                    go.wait(PATIENCE)

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait(PATIENCE)
            task = asyncio.create_task(subscription.next())
            await turns()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go.set()
            thread.join(PATIENCE)
            await store.flush()  # The worker does it behind what was cancelled.
        assert len(core.listeners._listeners) == before
        await subscription.close()
        await store.close()

    asyncio.run(main())
