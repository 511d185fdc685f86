"""What the auditor of a chain does, a partition at a time: finish, repair, drop; and abandon."""

from quiver.chain.tending.tender import Done, Tender, abandon

__all__ = ["Done", "Tender", "abandon"]
