"""A node's copies of blocks, on its disk.

============  ====================================================================
``format``    bytes of a copy's state and of what stands before its entries (``FORMAT.md``)
``names``     what its files are called
``entries``   entries in a row, checked before they are kept
``log``       the entries of one copy: appended, synced, cut
``segments``  the segment that is made of them, or fetched
``copy``      one copy: promise, log, segment
``shelf``     all of one node: found at its start, made, dropped for good
============  ====================================================================
"""

from quiver.chain.copies.copy import BlockCopy, CopyRules
from quiver.chain.copies.entries import Extent
from quiver.chain.copies.shelf import Copies

__all__ = ["BlockCopy", "Copies", "CopyRules", "Extent"]
