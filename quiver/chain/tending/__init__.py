"""What the auditor of a chain does: finish, repair, drop, balance, seal what has no loader.

=============  ==================================================================
``tender``     a pass over one partition; and ``abandon``
``auditor``    a pass over all of them
``balancing``  blocks that move from fuller nodes to emptier ones
``nodes``      the nodes as all of these ask for them
``orphans``    open blocks whose loader is gone
``claims``     claims of loaders that are gone before they had a block
``closing``    how one of these is sealed
=============  ==================================================================
"""

from quiver.chain.tending.auditor import Audited, Auditor
from quiver.chain.tending.balancing import MOVES_MAX, Balancer
from quiver.chain.tending.claims import CLAIM_NS, Claims
from quiver.chain.tending.closing import seal_open
from quiver.chain.tending.orphans import CLAIMED, ORPHAN_NS, Orphan, Orphans
from quiver.chain.tending.tender import Done, Tender, abandon

__all__ = [
    "CLAIMED",
    "CLAIM_NS",
    "MOVES_MAX",
    "ORPHAN_NS",
    "Audited",
    "Auditor",
    "Balancer",
    "Claims",
    "Done",
    "Orphan",
    "Orphans",
    "Tender",
    "abandon",
    "seal_open",
]
