"""Time blocks and the replication chain: partitions that outlive a machine.

``copies``    a node's copies of blocks, on its disk
``metadata``  where all machines of a chain keep what they have to agree on
``peers``     what nodes, loaders and cursors ask of a node, whatever lies between them
``placing``   which nodes get a block, which copies are made first, who sees to it
``record``    what is agreed on about a partition: its blocks, and who may end the open one
``rolling``   from one block to the next: when, and in which order what is done
``sealing``   who may write to a block, and where it ends when its chain breaks
``wire``      nodes that speak to each other by Arrow Flight
============  ====================================================================
=======
==============  ==================================================================
``copies``        a node's copies of blocks, on its disk
``membership``  which nodes there are, and who of them fell silent
``metadata``    where all machines of a chain keep what they have to agree on
``peers``       what nodes, loaders and cursors ask of a node, whatever lies between them
``placing``     which nodes get a block, which copies are made first, who sees to it
``record``      what is agreed on about a partition: its blocks, and who may end the open one
``rolling``     from one block to the next: when, and in which order what is done
``sealing``     who may write to a block, and where it ends when its chain breaks
``wire``        nodes that speak to each other by Arrow Flight
==============  ==================================================================
"""

from __future__ import annotations

from quiver.chain.metadata import Metadata, open_metadata
from quiver.chain.placing import Lease, choose, repairs
from quiver.chain.record import Block, Partition, Record
from quiver.chain.rolling import Roll, RollRules
from quiver.chain.sealing import Answer, Decision, Sealed, Wait, decide

__all__ = [
    "Answer",
    "Block",
    "Decision",
    "Lease",
    "Metadata",
    "Partition",
    "Record",
    "Roll",
    "RollRules",
    "Sealed",
    "Wait",
    "choose",
    "decide",
    "open_metadata",
    "repairs",
]
