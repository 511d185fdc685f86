"""Subscribers in processes of their own, beside the one that writes, or when nobody does.

============  =====================================================================
``consumer``  ``Consumer``: bundles of all cores, handles, commits
``segments``  ``SegmentConsumer``: whole segments, for who carries them elsewhere
``follower``  one core, read without a lock: a desk like the store's own
``gathered``  what was done and may not have been folded in yet
``lease``     the inbox, and that only the last process counts
``positions`` acks of everything before a position
``whole``     whether all came that there is
``keeper``    the thread: new segments, commits
============  =====================================================================

::

    with quiver.subscribe("store", "uploader") as consumer:
        for bundle in consumer:
            with bundle:
                upload(bundle["logs"])
"""

from __future__ import annotations

import os
from collections.abc import Collection

from quiver.clock import Clock
from quiver.config_file import ConfigLike, config_of
from quiver.consumer.consumer import Consumer
from quiver.consumer.positions import is_known
from quiver.consumer.segments import Pending, SegmentConsumer
from quiver.consumer.whole import check_whole
from quiver.disk import Disk, LocalDisk
from quiver.engine.start import Start
from quiver.engine.wanted import DeliveryOrder

__all__ = ["Consumer", "Pending", "SegmentConsumer", "check_whole", "is_known", "subscribe"]


def subscribe(
    path: str | os.PathLike[str],
    name: str,
    *,
    core: int | None = None,
    start: Start = "earliest",
    order: DeliveryOrder = "oldest",
    slots: Collection[str] | str | None = None,
    prefetch: int = 0,
    commit_interval: float | str = "250ms",
    config: ConfigLike = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
    worker: bool = True,
) -> Consumer:
    """Take bundles of a store as the subscriber ``name``, from any process, without its lock.

    The options are those of ``Store.subscribe``; ``core`` chooses one of several, and ``config``
    the retries. Without ``core`` the subscriber is registered in every core, those included that
    are made later, which it takes from their beginning. Bundles of one core come in their order;
    cores take turns, from the lowest number up.

    What was done is left in the store's folder at each commit; whoever has the store open folds it
    in at its next tick, and ``quiver gc`` does where nobody has. If two processes use one name the
    later one goes on, and the earlier one gets a SubscriberError. A new subscriber keeps data from
    being deleted from the moment at which it is folded in.

    With ``worker=False`` there is no thread: call ``refresh`` and ``commit``. ``disk`` and
    ``clock`` are for tests. Raises MissingError if there is no store.
    """
    local = LocalDisk(path) if disk is None else None
    try:
        return Consumer(
            local or disk or LocalDisk(path),
            name,
            core=core,
            start=start,
            options={"order": order, "slots": slots, "prefetch": prefetch},
            config=config_of(config),
            commit_interval=commit_interval,
            clock=clock,
            keep=worker,
            let_go=None if local is None else local.close,
        )
    except BaseException:
        if local is not None:
            local.close()
        raise
