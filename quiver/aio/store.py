"""``AsyncStore``: what ``quiver.Store`` does, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, overload

from quiver.aio.bell import Bell
from quiver.aio.call import ask
from quiver.aio.subscription import AsyncSubscription
from quiver.engine import Follower, Progress, Receipt, RecoveryReport, Store, StoreInfo
from quiver.engine.start import Start
from quiver.engine.wanted import DeliveryOrder
from quiver.errors import CapacityError, ClosedError, InputError, PoisonedError
from quiver.segment import SegmentInfo
from quiver.slots import SlotTable
from quiver.timeline import Time
from quiver.units import MILLISECOND, SECOND

__all__ = ["AsyncStore"]

T = TypeVar("T")
_LOOK_AGAIN_NS: Final = 250 * MILLISECOND
"""Room on the disk may come from others, who tell nobody."""


class AsyncStore:
    """An open store, used from event loops; ``store`` is the same one for plain threads.

    Everything awaited here is done by the store's worker, in the order asked for, so a long
    ``finalize`` holds up what is asked for behind it, though never an event loop; segments that are
    written because they are full or old hold up nothing. What is cancelled before its turn is not
    done; what has begun is done to its end.
    """

    def __init__(self, store: Store) -> None:
        """Put this face on an open store, which must have its worker."""
        worker = store.worker
        if worker is None:
            raise InputError(
                "the asyncio face needs the store's worker", hint="open without worker=False"
            )
        self._store = store
        self._worker = worker

    async def _ask(self, act: Callable[[], T], *, binding: bool = False) -> T:
        if self._store.inherited:
            self._store.check_usable()  # A forked child has no worker: it would wait for ever.
        return await ask(self._worker, act, binding=binding)

    # append ------------------------------------------------------------------------------------

    @overload
    async def append(
        self,
        bundle: Mapping[str, Any],
        *,
        wait: Literal[True] = True,
        timeout: float | str | None = None,  # noqa: ASYNC109
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> int: ...
    @overload
    async def append(
        self,
        bundle: Mapping[str, Any],
        *,
        wait: Literal[False],
        timeout: float | str | None = None,  # noqa: ASYNC109
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> Receipt: ...

    async def append(  # Of one name and meaning with Store.append.
        self,
        bundle: Mapping[str, Any],
        *,
        wait: bool = True,
        timeout: float | str | None = None,  # noqa: ASYNC109
        progress: Progress | None = None,
        time: Time | None = None,
    ) -> int | Receipt:
        """Take one bundle and give its wal_seq, once it survives what ``wal.durability`` promises.

        Bundles are taken in the order of the calls, and all that wait share one sync. Leave the
        batches as they are until this returns. With ``wait=False`` it gives a Receipt, to be
        awaited, as soon as the bundle is taken. In a full store it waits for room as long as
        ``timeout`` or ``retention.block_timeout`` says; what comes meanwhile and finds room is
        taken before it. Cancelled, it has taken the bundle or not, and a bundle that was taken
        becomes durable all the same. ``progress``, made by a Follower, and ``time`` go with it.
        """
        receipt = await self._take(
            bundle, self._store.wait_for_room_ns(timeout), progress, time=time
        )
        if not wait:
            return receipt
        if self._store.durability == "sync":
            await receipt
        return receipt.wal_seq

    async def _take(
        self,
        bundle: Mapping[str, Any],
        rest_ns: int,
        progress: Progress | None,
        *,
        time: Time | None,
    ) -> Receipt:
        """Take a bundle, and again when something has changed, as long as there is time."""
        try:
            return await self._ask(
                lambda: self._store.append(
                    bundle, wait=False, timeout=0, progress=progress, time=time
                )
            )
        except CapacityError:
            if not rest_ns:
                raise
        loop, bell = asyncio.get_running_loop(), Bell()
        began = loop.time()
        self._store.listeners.add(bell.ring)
        try:
            while True:
                bell.silence()
                waited_ns = int((loop.time() - began) * SECOND)
                try:
                    return await self._ask(lambda: self._store.append_again(bundle, progress, time))
                except CapacityError:
                    if waited_ns >= rest_ns:
                        raise
                await bell.wait(min(rest_ns - waited_ns, _LOOK_AGAIN_NS))
        finally:
            self._store.listeners.discard(bell.ring)
            waited_ns = int((loop.time() - began) * SECOND)
            self._store.instruments.add("quiver.wal.throttled", waited_ns)

    async def follow(self, source: str, *, begin_anew: bool = False) -> Follower:
        """Begin to read a source for this store, as ``Store.follow`` does.

        ``unfollow``, or closing the store, lets others; to ``close`` a follower would block.
        """
        return await ask(
            self._worker,
            lambda: self._store.follow(source, begin_anew=begin_anew),
            undo=lambda follower: follower.close(),
        )

    async def unfollow(self, follower: Follower) -> None:
        """Make durable what was appended, and let others follow the source."""
        await self._ask(follower.close)

    async def progress(self, source: str) -> dict[str, str]:
        """Give the state of each split of a source as of the last bundle, which is durable then."""
        return await self._ask(lambda: self._store.progress(source))

    async def flush(self) -> None:
        """Return once every bundle appended so far survives a power cut."""
        await self._ask(self._store.flush)

    async def heartbeat(self, time: Time | None = None) -> int:
        """Promise that no bundle of this core will be of ``time`` or before, as the store does."""
        return await self._ask(lambda: self._store.heartbeat(time))

    async def finalize(self) -> SegmentInfo | None:
        """Turn the open segment into a durable file; None if it is empty."""
        return await self._ask(self._store.finalize)

    # subscribe ---------------------------------------------------------------------------------

    async def subscribe(
        self,
        name: str,
        *,
        start: Start = "earliest",
        order: DeliveryOrder = "oldest",
        slots: Collection[str] | str | None = None,
        prefetch: int = 0,
    ) -> AsyncSubscription:
        """Take bundles as the subscriber ``name``, which is registered durably if it is new.

        The options are those of ``Store.subscribe``.
        """
        subscription = await self._ask(
            lambda: self._store.subscribe(
                name, start=start, order=order, slots=slots, prefetch=prefetch
            )
        )
        return AsyncSubscription(self._store, self._worker, subscription)

    async def unsubscribe(self, name: str) -> None:
        """Forget a subscriber for good; segments that only it still needed become free to go."""
        await self._ask(lambda: self._store.unsubscribe(name))

    # maintain and close ------------------------------------------------------------------------

    async def maintain(self) -> int:
        """Do one tick of upkeep now and give the number of segments deleted."""
        return await self._ask(self._store.maintain)

    async def close(self) -> None:
        """Finalize, make acks durable, and let go of everything; a second call does nothing.

        Who waits meanwhile is told: ``append`` and receipts end with their number if the bundle is
        durable now, ``next`` and ``async for`` end, and what had not begun raises ClosedError.
        Cancelling this does not stop it.
        """
        if self._store.closed or self._store.inherited:
            return
        try:
            await self._ask(self._store.close, binding=True)
        except PoisonedError:
            raise
        except ClosedError:
            # Another one closes it just now; what went wrong there is told there.
            if not self._worker.stopping:
                raise

    # look --------------------------------------------------------------------------------------

    async def info(self) -> StoreInfo:
        """Describe the state of each station at this moment."""
        return await self._ask(self._store.info)

    @property
    def store(self) -> Store:
        """The store itself, for plain threads: on an event loop its methods would block."""
        return self._store

    @property
    def path(self) -> str:
        """The folder of the store."""
        return self._store.path

    @property
    def slots(self) -> SlotTable:
        """The slot table that the store was created with."""
        return self._store.slots

    @property
    def recovery(self) -> RecoveryReport:
        """What opening found: bundles brought back, a tail cut, damage set aside."""
        return self._store.recovery

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
        return self._store.closed

    @property
    def worker_failure(self) -> BaseException | None:
        """What the worker's last tick raised, if it failed; it tries again at each tick."""
        return self._store.worker_failure

    def metrics(self) -> Mapping[tuple[str, str], int]:
        """Counters since the store was opened, by (name, label)."""
        return self._store.metrics()

    async def __aenter__(self) -> Self:
        """Give the store itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store."""
        await self.close()

    def __repr__(self) -> str:
        """Say which store it is and whether it is open."""
        return f"<Async{repr(self._store)[1:]}"
