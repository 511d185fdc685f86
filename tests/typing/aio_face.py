"""Type-checked and never run: what the asyncio face gives has the types that it is used with."""

from __future__ import annotations

from collections.abc import Awaitable

import pyarrow as pa

import quiver
from quiver.aio import AsyncBundleHandle, AsyncStore, AsyncSubscription


async def append(store: AsyncStore, bundle: dict[str, pa.Table]) -> tuple[int, quiver.Receipt, int]:
    receipt = await store.append(bundle, wait=False)
    return await store.append(bundle), receipt, await receipt


async def take(subscription: AsyncSubscription) -> list[pa.RecordBatch]:
    found = []
    async for handle in subscription:
        async with handle as bundle:
            found.append(bundle["events"])
    last: AsyncBundleHandle | None = await subscription.next("1s")
    if last is not None:
        await last.nack("5s", "late")
    return found


async def life() -> AsyncStore:
    async with quiver.aio.open("store", slots=["events"]) as store:
        await store.close()
    return await quiver.aio.open("store")


def receipts(store: quiver.Store) -> list[Awaitable[int]]:
    return [store.append({}, wait=False)]


def numbers(store: quiver.Store) -> list[int]:
    return [store.append({}), store.append({}, wait=False).wait("1s")]
