"""Subscribers of partitions whose marks and acks are a partition of their own, on nodes (R44).

================  =================================================================
``records``       what is written down of a subscriber
``format``        each of them as a text
``marks``         what all of them come to: who had what, and where to go on
``log``           they are written to a partition, and bounded by snapshots
``blocks``        finished blocks that have all their copies, from whatever node
``reach``         what it takes to get at nodes
``subscription``  the next bundles, and their outcomes
``known``         all subscribers as others see them; what they have may be purged
``changes``       what is done to one from outside: forgotten, held up, started over, renamed
================  =================================================================
"""

from quiver.chain.subscribing.changes import (
    drop_subscriber,
    pause_subscriber,
    rename_subscriber,
    reset_subscriber,
)
from quiver.chain.subscribing.known import (
    Purged,
    SubscriberMark,
    SubscriberView,
    list_subscribers,
    purge_acked,
)
from quiver.chain.subscribing.log import PREFIX, SubscriberRules, is_ack_partition
from quiver.chain.subscribing.marks import DeadLetter
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.subscription import ChainHandle, ChainRun, ChainSubscription

__all__ = [
    "PREFIX",
    "ChainHandle",
    "ChainRun",
    "ChainSubscription",
    "DeadLetter",
    "Purged",
    "Reach",
    "SubscriberMark",
    "SubscriberRules",
    "SubscriberView",
    "drop_subscriber",
    "is_ack_partition",
    "list_subscribers",
    "pause_subscriber",
    "purge_acked",
    "rename_subscriber",
    "reset_subscriber",
]
