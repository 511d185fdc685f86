"""What the auditor of a chain does: finish, repair, drop, seal what has no loader; and abandon.

===========  ====================================================================
``tender``   a pass over one partition; and ``abandon``
``auditor``  a pass over all of them
``orphans``  open blocks whose loader is gone
``closing``  how one of these is sealed
===========  ====================================================================
"""

from quiver.chain.tending.auditor import Audited, Auditor
from quiver.chain.tending.closing import seal_open
from quiver.chain.tending.orphans import ORPHAN_NS, Orphan, Orphans
from quiver.chain.tending.tender import Done, Tender, abandon

__all__ = [
    "ORPHAN_NS",
    "Audited",
    "Auditor",
    "Done",
    "Orphan",
    "Orphans",
    "Tender",
    "abandon",
    "seal_open",
]
