"""Time blocks and the replication chain: partitions that outlive a machine.

==============  ==================================================================================
``cluster``     a client: loaders and cursors by way of any node that is up
``copies``      a node's copies of blocks, on its disk
``loading``     the loader: bundles become entries of a block, whatever happens to its chain
``membership``  which nodes there are, and who of them fell silent
``metadata``    where all machines of a chain keep what they have to agree on
``mirroring``   partitions into a store of this machine, each bundle once
``node``        a node: entries that come are synced, passed on, acknowledged from the end
``peers``       what nodes, loaders and cursors ask of a node, whatever lies between them
``placing``     which nodes get a block, which copies are made first, who sees to it
``reading``     cursors over partitions, from whatever copy answers
``record``      what is agreed on about a partition: its blocks, and who may end the open one
``rolling``     from one block to the next: when, and in which order what is done
``sealing``     who may write to a block, and where it ends when its chain breaks
``serving``     a node as a process: from offline to serving, and back
``subscribing`` subscribers whose marks are a partition of their own
``tending``     the auditor's pass: finish, copy, drop; and abandon
``wire``        nodes that speak to each other by Arrow Flight
``polling``     who is woken by a message of gRPC
``workers``     who does what goes on beside the caller: threads, or a test's lot
==============  ==================================================================================
"""

from __future__ import annotations

from quiver.chain.copies import Copies, CopyRules
from quiver.chain.loading import Loader, LoaderRules, LoadReceipt, Surroundings
from quiver.chain.metadata import Metadata, open_metadata
from quiver.chain.mirroring import Mirror, Mirrored
from quiver.chain.node import LocalNode
from quiver.chain.placing import Lease, choose, repairs
from quiver.chain.polling import use_polling
from quiver.chain.record import Block, Partition, Record
from quiver.chain.rolling import Roll, RollRules
from quiver.chain.sealing import Answer, Decision, Sealed, Wait, decide
from quiver.chain.subscribing import ChainSubscription, SubscriberRules
from quiver.chain.workers import ThreadWorkers

__all__ = [
    "Answer",
    "Block",
    "ChainSubscription",
    "Copies",
    "CopyRules",
    "Decision",
    "Lease",
    "LoadReceipt",
    "Loader",
    "LoaderRules",
    "LocalNode",
    "Metadata",
    "Mirror",
    "Mirrored",
    "Partition",
    "Record",
    "Roll",
    "RollRules",
    "Sealed",
    "SubscriberRules",
    "Surroundings",
    "ThreadWorkers",
    "Wait",
    "choose",
    "decide",
    "open_metadata",
    "repairs",
    "use_polling",
]
