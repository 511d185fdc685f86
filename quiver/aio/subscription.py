"""One subscriber's bundles, awaited."""

from __future__ import annotations

import contextlib
from typing import Self

from quiver.aio.bell import Bell
from quiver.aio.call import ask
from quiver.aio.handle import AsyncBundleHandle
from quiver.engine import Store, Subscription
from quiver.engine.subscription import Look
from quiver.engine.worker import Worker
from quiver.errors import ClosedError, PoisonedError

__all__ = ["AsyncSubscription"]


class AsyncSubscription:
    """Bundles for one named subscriber, oldest first; each is claimed until it is resolved.

    Several tasks may take from one subscription, on several loops; a bundle goes to one of them. A
    task that is cancelled while it waits holds no claim: what was claimed for it is offered again
    at once.
    """

    def __init__(self, store: Store, worker: Worker, subscription: Subscription) -> None:
        """Put this face on a subscription; ``AsyncStore.subscribe`` does it."""
        self._store = store
        self._worker = worker
        self._subscription = subscription

    @property
    def name(self) -> str:
        """The name of the subscriber."""
        return self._subscription.name

    async def poll(self) -> AsyncBundleHandle | None:
        """Claim the next bundle if one is ready; does not wait for one."""
        self._check_process()
        subscription = self._subscription
        found = await ask(self._worker, subscription.claim, undo=subscription.give_back_if_any)
        if found is None:
            return None
        return AsyncBundleHandle(self._worker, subscription.hand_out(found))

    async def next(self, timeout: float | str | None = None) -> AsyncBundleHandle | None:  # noqa: ASYNC109 Of one name and meaning with Subscription.next.
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        ``timeout`` is seconds or a duration such as ``"250ms"``; without one this waits until the
        store or the subscription is closed, which gives None.
        """
        self._check_process()
        subscription = self._subscription
        limit_ns = subscription.limit_ns(timeout)
        bell = Bell()
        try:
            while True:
                bell.silence()
                look = await self._look(limit_ns, bell)
                if look.found is not None:
                    return AsyncBundleHandle(self._worker, subscription.hand_out(look.found))
                if look.is_over:
                    return None
                await bell.wait(look.rest_ns)
        finally:
            subscription.forget(bell.ring)

    async def _look(self, limit_ns: int | None, bell: Bell) -> Look:
        subscription = self._subscription

        def undo(look: Look) -> None:
            subscription.forget(bell.ring)  # It may have been heard of only now.
            subscription.give_back_if_any(look.found)

        try:
            return await ask(
                self._worker, lambda: subscription.look(limit_ns, bell.ring), undo=undo
            )
        except PoisonedError:
            raise
        except ClosedError:
            return Look(is_over=True)

    def _check_process(self) -> None:
        if self._store.inherited:
            self._store.check_usable()  # A forked child has no worker: it would wait for ever.

    def __aiter__(self) -> Self:
        """Go through bundles as they come, until the store or this subscription is closed."""
        return self

    async def __anext__(self) -> AsyncBundleHandle:
        """Claim the next bundle, waiting until there is one."""
        handle = await self.next()
        if handle is None:
            raise StopAsyncIteration
        return handle

    async def close(self) -> None:
        """Stop taking bundles and wake whoever waits; the subscriber stays registered."""
        # Not begun means that the store is closed, which did it all.
        with contextlib.suppress(ClosedError):
            await ask(self._worker, self._subscription.close, binding=True)

    def __repr__(self) -> str:
        """Name the subscriber."""
        return f"AsyncSubscription({self.name!r})"
