"""A node as a process: its copies on a disk, its wire, its entry among the others.

=============  ====================================================================
``auditing``   its part in looking after all of the chain: a lease, passes, orphans
``scrubbing``  segments are read again, in case they rot
``syncing``    what a node that was away does: the records say what became of its blocks
``serving``    all of it together, from offline to serving and back
=============  ====================================================================
"""

from quiver.chain.serving.auditing import Auditing, AuditRules
from quiver.chain.serving.scrubbing import Scrubbing, ScrubRules
from quiver.chain.serving.serving import ServedNode, machine_boot
from quiver.chain.serving.syncing import sync_with_records

__all__ = [
    "AuditRules",
    "Auditing",
    "ScrubRules",
    "Scrubbing",
    "ServedNode",
    "machine_boot",
    "sync_with_records",
]
