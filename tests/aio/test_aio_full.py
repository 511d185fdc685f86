"""A full store, awaited: who may wait gets in when somebody acks, and is counted once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aio_kit import turns
from store_kit import SLOTS, bundle

import quiver

KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "50ms"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
    "retention": {"size_cap": 200_000},
}


async def fill(store: quiver.aio.AsyncStore) -> int:
    for number in range(2000):
        try:
            await store.append(bundle(number))
        except quiver.CapacityError:
            return number
    raise AssertionError("all of it fits")


async def fill_up(store: quiver.aio.AsyncStore) -> int:
    """Fill it until no upkeep makes room for one more: a busy machine refuses some sooner."""
    taken = more = await fill(store)
    while more:
        await store.maintain()
        more = await fill(store)
        taken += more
    return taken


def test_who_may_wait_gets_in_when_somebody_acks(tmp_path) -> None:
    async def main() -> None:
        async with quiver.aio.open(tmp_path / "s", slots=SLOTS, config=KNOBS) as store:
            reader = await store.subscribe("reader")
            taken = await fill(store)
            waiting = asyncio.create_task(store.append(bundle(taken), timeout="60s"))
            got = 0
            while got <= taken:
                handle = await reader.next(timeout=60)
                assert handle is not None
                await handle.ack()
                got += 1
            assert await waiting == taken
            metrics = store.metrics()
            assert metrics["quiver.wal.throttled_appends", ""] == 2
            assert metrics["quiver.wal.throttled", ""] > 0

    asyncio.run(main())


def test_who_waits_in_vain_is_told(tmp_path) -> None:
    async def main() -> None:
        async with quiver.aio.open(tmp_path / "s", slots=SLOTS, config=KNOBS) as store:
            await store.subscribe("reader")
            taken = await fill_up(store)
            with pytest.raises(quiver.CapacityError):
                await store.append(bundle(taken), timeout="20ms")
            assert (await store.info()).next_wal_seq == taken

    asyncio.run(main())


def test_who_is_cancelled_while_waiting_has_taken_nothing(tmp_path) -> None:
    async def main() -> None:
        async with quiver.aio.open(tmp_path / "s", slots=SLOTS, config=KNOBS) as store:
            await store.subscribe("reader")
            taken = await fill_up(store)
            waiting = asyncio.create_task(store.append(bundle(taken), timeout="60s"))
            await turns()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await store.info()).next_wal_seq == taken

    asyncio.run(main())
