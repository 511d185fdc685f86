"""The asyncio face: what it gives, what cancellation leaves, and that it never blocks its loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from aio_kit import Arrivals, open_async, turns, workers
from gated_disk import PATIENCE, GatedDisk
from store_kit import SLOTS, bundle, numbers, on_memory

import quiver
from quiver.aio import AsyncStore
from quiver.engine import ingest
from quiver.testing import MemoryDisk


def test_a_life_of_a_store_on_a_loop(tmp_path) -> None:
    async def main() -> None:
        async with quiver.aio.open(tmp_path / "store", slots=SLOTS) as store:
            assert len(workers()) == 1
            assert [await store.append(bundle(n)) for n in range(3)] == [0, 1, 2]
            receipt = await store.append(bundle(3), wait=False)
            assert await receipt == 3
            await store.flush()
            assert (await store.finalize()).bundle_count == 4
            assert await store.finalize() is None
            subscription = await store.subscribe("reader")
            for n in range(4):
                async with await subscription.next() as handle:
                    assert handle["events"].column("n")[0].as_py() == n
                    assert set(handle) == set(bundle(n))
            info = await store.info()
            assert (info.subscribers, info.segments, info.next_wal_seq) == (("reader",), 1, 4)
            assert await store.maintain() == 1
            await store.unsubscribe("reader")
            assert (await store.info()).subscribers == ()
            assert store.path == str(tmp_path / "store")
            assert [slot.name for slot in store.slots] == SLOTS
            assert store.recovery.replayed_bundles == 0
            assert store.metrics()["quiver.wal.appended_bundles", ""] == 4
            assert store.worker_failure is None
            assert not store.closed
            assert "open" in repr(store)
        assert store.closed
        await store.close()
        with pytest.raises(quiver.ClosedError):
            await store.append(bundle(5))

    asyncio.run(main())


@pytest.mark.parametrize(("mode", "syncs"), [("sync", 1), ("interval", 0), ("segment", 0)])
def test_an_append_waits_for_what_its_durability_promises(
    disk: GatedDisk, mode: str, syncs: int
) -> None:
    async def main() -> None:
        async with open_async(disk, wal={"durability": mode, "flush_interval": "1h"}) as store:
            before = disk.gate.arrivals
            assert await store.append(bundle(0)) == 0
            assert disk.gate.arrivals - before == syncs

    asyncio.run(main())


def test_appends_of_many_tasks_share_two_syncs(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        async with open_async(disk) as store:
            before = disk.gate.arrivals
            disk.gate.shut()
            first = asyncio.create_task(store.append(bundle(0)))
            await arrivals.next()
            rest = [asyncio.create_task(store.append(bundle(n))) for n in range(1, 200)]
            await turns()
            disk.gate.open()
            assert await asyncio.gather(first, *rest) == list(range(200))
            assert disk.gate.arrivals - before == 2
            await store.finalize()
            assert numbers(store.store) == list(range(200))

    asyncio.run(main())


def test_nothing_blocks_the_loop_while_the_worker_holds_the_lock_of_the_store(
    disk: GatedDisk,
) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        async with open_async(disk) as store:
            await store.append(bundle(0))
            await store.finalize()
            subscription = await store.subscribe("reader")
            held = await subscription.next()
            await store.append(bundle(1))
            disk.gate.shut(".qseg.tmp")
            acts = [store.finalize()]
            tasks = [asyncio.create_task(act) for act in acts]
            await arrivals.next()
            acts = [
                store.append(bundle(2)),
                store.append(bundle(3), wait=False),
                held.ack(),
                subscription.poll(),
                store.subscribe("other"),
                store.flush(),
                store.maintain(),
                store.info(),
            ]
            tasks += [asyncio.create_task(act) for act in acts]
            await turns()
            assert not any(task.done() for task in tasks)
            disk.gate.open()
            done = await asyncio.gather(*tasks)
            await done[4].defer()

    asyncio.run(main())


@pytest.mark.parametrize("wait", [True, False])
def test_an_append_cancelled_before_its_turn_takes_nothing(disk: GatedDisk, *, wait: bool) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        async with open_async(disk) as store:
            disk.gate.shut()
            first = asyncio.create_task(store.append(bundle(0)))
            await arrivals.next()
            queued = asyncio.create_task(store.append(bundle(1), wait=wait))
            behind = asyncio.create_task(store.append(bundle(2)))
            await turns()
            queued.cancel()
            await turns()
            disk.gate.open()
            assert await asyncio.gather(first, behind) == [0, 1]
            assert queued.cancelled()
            await store.finalize()
            assert numbers(store.store) == [0, 2]

    asyncio.run(main())


def test_an_append_cancelled_while_it_is_taken_is_taken_whole(
    disk: GatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        began, go_on = asyncio.Event(), threading.Event()
        honest = ingest.take

        def take(*args: Any, **options: Any) -> Any:
            loop.call_soon_threadsafe(began.set)
            assert go_on.wait(PATIENCE)
            return honest(*args, **options)

        async with open_async(disk) as store:
            monkeypatch.setattr(ingest, "take", take)
            task = asyncio.create_task(store.append(bundle(0)))
            await began.wait()
            task.cancel()
            await turns()
            assert task.cancelled()
            go_on.set()
            assert await store.append(bundle(1)) == 1
        assert numbers(on_memory(disk)) == [0, 1]

    asyncio.run(main())


def test_an_append_cancelled_while_it_is_synced_becomes_durable_with_the_others(
    disk: GatedDisk,
) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        async with open_async(disk) as store:
            disk.gate.shut()
            tasks = [asyncio.create_task(store.append(bundle(n))) for n in range(2)]
            await arrivals.next()
            await turns()
            tasks[0].cancel()
            await turns()
            disk.gate.open()
            assert await tasks[1] == 1
            assert tasks[0].cancelled()
            again = on_memory(MemoryDisk(disk.tree))
            again.finalize()
            assert numbers(again) == [0, 1]

    asyncio.run(main())


def test_a_failed_sync_is_raised_in_every_task_and_the_store_still_closes(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        async with open_async(disk) as store:
            await store.append(bundle(0))
            await arrivals.next()
            disk.gate.shut()
            tasks = [asyncio.create_task(store.append(bundle(n))) for n in range(1, 9)]
            await arrivals.next()
            disk.fail_syncs_of_the_log()
            disk.gate.open()
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(error) for error in errors] == [quiver.PoisonedError] * 8
            with pytest.raises(quiver.PoisonedError):
                await store.append(bundle(9))
        assert store.closed
        again = on_memory(MemoryDisk(disk.tree))
        again.finalize()
        assert numbers(again)[0] == 0

    asyncio.run(main())


def test_a_bundle_that_is_refused_is_refused_in_its_task(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            with pytest.raises(quiver.InputError):
                await store.append({"unknown": None})
            with pytest.raises(quiver.SubscriberError):
                await store.subscribe("../name")
            assert await store.append(bundle(0)) == 0

    asyncio.run(main())


def test_several_loops_and_threads_use_one_store(disk: GatedDisk) -> None:
    with quiver.open("memory", slots=SLOTS, disk=disk) as store:

        async def some(first: int) -> None:
            face = AsyncStore(store)
            await asyncio.gather(*(face.append(bundle(n)) for n in range(first, first + 20)))

        threads = [threading.Thread(target=asyncio.run, args=(some(100 * t),)) for t in range(1, 4)]
        for thread in threads:
            thread.start()
        for n in range(20):
            store.append(bundle(n))
        for thread in threads:
            thread.join(PATIENCE)
        store.finalize()
        found = numbers(store)
        assert sorted(found) == [100 * t + n for t in range(4) for n in range(20)]
        for t in range(4):
            assert [n for n in found if n // 100 == t] == [100 * t + n for n in range(20)]


def test_a_store_without_a_worker_has_no_such_face() -> None:
    store = on_memory(MemoryDisk())
    with pytest.raises(quiver.InputError, match="worker"):
        AsyncStore(store)


def test_the_copy_in_a_forked_child_refuses_at_once(disk: GatedDisk) -> None:
    async def main() -> None:
        async with open_async(disk) as store:
            subscription = await store.subscribe("reader")
            owner, store.store._core.owner = store.store._core.owner, -1
            acts = (lambda: store.append(bundle(0)), store.info)
            for act in (*acts, subscription.next, subscription.poll):
                with pytest.raises(quiver.ClosedError, match="fork"):
                    await act()
            for harmless in (store.close, subscription.close):
                await harmless()
            store.store._core.owner = owner
            assert await store.append(bundle(0)) == 0

    asyncio.run(main())


def test_importing_and_using_a_plain_store_loads_neither_face_nor_asyncio(tmp_path) -> None:
    code = (
        "import sys, quiver\n"
        "print([n for n in ('asyncio', 'quiver.aio') if n in sys.modules])\n"
        f"quiver.open({str(tmp_path / 's')!r}, slots=['a']).close()\n"
        "print('quiver.aio' in sys.modules)\n"
        "print(quiver.aio.open.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:3] == ["[]", "False", "open"]
