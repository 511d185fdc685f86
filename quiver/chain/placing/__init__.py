"""Which nodes get a block, which copies are made first, and who sees to that.

===========  ====================================================================
``choose``   locations for a block: two at random, the emptier one
``balance``  blocks that move from fuller nodes to emptier ones
``repairs``  copies that are wanted, in the order in which they are made
``lease``    one auditor at a time, without a clock that two machines share
===========  ====================================================================
"""

from quiver.chain.placing.balance import BEGIN, REST, Move, Placed, balance, skew
from quiver.chain.placing.choose import FILL_MAX, Chosen, Node, choose
from quiver.chain.placing.lease import AUDITOR, Lease, auditor_in
from quiver.chain.placing.repairs import START_DELAY_NS, Held, Repair, Want, repairs

__all__ = [
    "AUDITOR",
    "BEGIN",
    "FILL_MAX",
    "REST",
    "START_DELAY_NS",
    "Chosen",
    "Held",
    "Lease",
    "Move",
    "Node",
    "Placed",
    "Repair",
    "Want",
    "auditor_in",
    "balance",
    "choose",
    "repairs",
    "skew",
]
