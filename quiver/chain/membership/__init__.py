"""Which nodes there are: each says so in the metadata, and whoever looks sees who fell silent.

============  ====================================================================
``member``    what a node says of itself, and its bytes
``register``  a node's own entry, counted up each second
``members``   all entries as one sees them: who serves, who is gone since when, how to reach them
============  ====================================================================
"""

from quiver.chain.membership.member import Member
from quiver.chain.membership.members import GONE_NS, Members, list_partitions
from quiver.chain.membership.register import BEAT_SECONDS, Registration

__all__ = ["BEAT_SECONDS", "GONE_NS", "Member", "Members", "Registration", "list_partitions"]
