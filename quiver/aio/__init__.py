"""The asyncio face of a store: the same engine, awaited.

================  =====================================================================
``opening``       ``open``
``store``         ``AsyncStore``
``subscription``  ``AsyncSubscription``: ``async for``, ``next``, ``poll``
``handle``        ``AsyncBundleHandle``: ``async with`` gives the outcome
``call``          one job on its way to the store's worker and back to an event loop
================  =====================================================================

Nothing here runs on a thread of its own, and nothing blocks an event loop. What may take long, or
wait for a lock that somebody holds while a disk works, is a job for the store's one worker, which
does jobs in order, then syncs once for all of them, and wakes the loops::

    async with quiver.aio.open("store", slots=["events"]) as store:
        await store.append({"events": table})
        subscription = await store.subscribe("uploader")
        async for bundle in subscription:
            async with bundle:
                await upload(bundle["events"])

A store may be used from several event loops and from plain threads at once: ``AsyncStore(store)``
puts this face on any open ``quiver.Store`` that has its worker.
"""

from quiver.aio.handle import AsyncBundleHandle
from quiver.aio.opening import Opening, open  # noqa: A004
from quiver.aio.store import AsyncStore
from quiver.aio.subscription import AsyncSubscription

__all__ = ["AsyncBundleHandle", "AsyncStore", "AsyncSubscription", "Opening", "open"]
