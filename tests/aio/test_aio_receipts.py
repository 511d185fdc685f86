"""Awaiting a receipt: the loop goes on, one sync for all, and nothing that ends it stops others."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aio_kit import Arrivals, turns
from gated_disk import PATIENCE, GatedDisk
from store_kit import SLOTS, bundle

import quiver
from quiver.engine.waiters import LoopWaiter


def open_(disk: GatedDisk, *, worker: bool = True, **config: Any) -> quiver.Store:
    return quiver.open("memory", slots=SLOTS, disk=disk, worker=worker, config=config)


async def wait_for(receipt: quiver.Receipt) -> int:
    return await receipt


def test_the_loop_goes_on_while_a_receipt_is_awaited(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        with open_(disk) as store:
            disk.gate.shut()
            receipt = store.append(bundle(0), wait=False)
            tasks = [asyncio.create_task(wait_for(receipt)) for _ in range(3)]
            await arrivals.next()
            await turns()
            assert not any(task.done() for task in tasks)
            assert not receipt.is_durable
            disk.gate.open()
            assert await asyncio.gather(*tasks) == [0, 0, 0]
            assert receipt.is_durable
            assert await receipt == 0

    asyncio.run(main())


def test_receipts_awaited_on_several_loops_share_one_sync(disk: GatedDisk) -> None:
    with open_(disk, wal={"flush_interval": "1h"}) as store:
        store.append(bundle(0))
        disk.gate.shut()
        leader = store.append(bundle(1), wait=False)
        receipts = [store.append(bundle(n), wait=False) for n in range(2, 8)]
        before = disk.gate.arrivals
        ready = threading.Barrier(3)
        found: list[list[int]] = []

        async def main() -> None:
            tasks = [asyncio.create_task(wait_for(r)) for r in (leader, *receipts)]
            await turns()
            ready.wait(PATIENCE)
            found.append(await asyncio.gather(*tasks))

        threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        ready.wait(PATIENCE)
        disk.gate.open()
        for thread in threads:
            thread.join(PATIENCE)
        assert found == [list(range(1, 8))] * 2
        assert disk.gate.arrivals == before + 1


def test_a_cancelled_wait_stops_nobody_and_may_be_repeated(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        with open_(disk) as store:
            disk.gate.shut()
            receipt = store.append(bundle(0), wait=False)
            one, other = (asyncio.create_task(wait_for(receipt)) for _ in range(2))
            await arrivals.next()
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await receipt
            assert not other.done()
            disk.gate.open()
            assert await other == await receipt == 0

    asyncio.run(main())


def test_a_failed_sync_is_raised_on_every_loop_that_waits(disk: GatedDisk) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        with open_(disk) as store:
            disk.gate.shut()
            receipts = [store.append(bundle(n), wait=False) for n in range(3)]
            tasks = [asyncio.create_task(wait_for(receipt)) for receipt in receipts]
            await arrivals.next()
            disk.fail_syncs_of_the_log()
            disk.gate.open()
            errors = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(error) for error in errors] == [quiver.PoisonedError] * 3
            assert len(set(map(id, errors))) == 3
            assert not any(receipt.is_durable for receipt in receipts)
            with pytest.raises(quiver.PoisonedError):
                await receipts[0]

    asyncio.run(main())


def test_a_loop_that_is_closed_while_it_waits_harms_nobody(disk: GatedDisk) -> None:
    with open_(disk) as store:
        loop = asyncio.new_event_loop()
        receipt = store.append(bundle(0), wait=False)
        disk.gate.shut()
        task = loop.create_task(wait_for(receipt))
        loop.run_until_complete(turns())
        loop.close()
        disk.gate.open()
        assert receipt.wait("60s") == 0
        assert asyncio.run(wait_for(receipt)) == 0
        task._log_destroy_pending = False  # It is meant to be thrown away.
        del task


def test_who_is_told_after_it_was_cancelled_takes_no_notice(disk: GatedDisk) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        faults: list[object] = []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        with open_(disk) as store:
            waiter = LoopWaiter(store.append(bundle(0), wait=False)._ticket, loop)
            waiter.future.cancel()
            waiter.tell(None)
            waiter.tell(quiver.ClosedError("closed"))
            await turns()
        assert not faults

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["sync", "interval", "segment"])
def test_a_close_ends_the_waiting_with_what_came_of_it(disk: GatedDisk, mode: str) -> None:
    async def main() -> None:
        arrivals = Arrivals(disk)
        store = open_(disk, worker=False, wal={"durability": mode})
        receipt = store.append(bundle(0), wait=False)
        disk.gate.shut(".qseg.tmp")
        task = asyncio.create_task(wait_for(receipt))
        await turns()
        closing = threading.Thread(target=store.close)
        closing.start()
        await arrivals.next()
        late = asyncio.create_task(wait_for(receipt))
        await turns()
        disk.gate.open()
        assert await task == await late == 0
        closing.join(PATIENCE)

    asyncio.run(main())


def test_without_a_worker_a_receipt_waits_for_the_next_sync_of_anybody(disk: GatedDisk) -> None:
    async def main() -> None:
        with open_(disk, worker=False) as store:
            receipt = store.append(bundle(0), wait=False)
            task = asyncio.create_task(wait_for(receipt))
            await turns()
            assert not task.done()
            store.maintain()
            assert await task == 0

    asyncio.run(main())


def test_a_sync_that_fails_in_another_thread_is_told_to_the_loop(disk: GatedDisk) -> None:
    async def main() -> None:
        store = open_(disk, worker=False)
        receipt = store.append(bundle(0), wait=False)
        task = asyncio.create_task(wait_for(receipt))
        await turns()
        disk.fail_syncs_of_the_log()
        with pytest.raises(quiver.PoisonedError):
            await asyncio.to_thread(receipt.wait)
        with pytest.raises(quiver.PoisonedError):
            await task
        store.close()

    asyncio.run(main())


def test_a_close_that_fails_is_told_to_the_loop(disk: GatedDisk) -> None:
    async def main() -> None:
        store = open_(disk, worker=False, wal={"durability": "segment"})
        task = asyncio.create_task(wait_for(store.append(bundle(0), wait=False)))
        await turns()
        disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
        with pytest.raises(quiver.CapacityError):
            store.close()
        with pytest.raises(quiver.ClosedError, match="closed before"):
            await task

    asyncio.run(main())
