"""A node's copies of blocks, on its disk.

==============  ====================================================================
``format``      bytes of a copy's state and of what stands before its entries (``FORMAT.md``)
``names``       what its files are called
``rules``       what holds for all of a node
``entries``     entries in a row, checked before they are kept
``log``         the entries of one copy: appended, synced, cut
``bundles``     what entries hold, looked at
``segments``    the segment that is made of them, or fetched
``readers``     who waits for more of a copy, and who is told at once
``copy``        one copy: promise, log, segment
``opening``     one copy as it is found at a start
``generation``  how new the folder is
``shelf``       all of one node: found at its start, made, dropped for good
==============  ====================================================================
"""

from quiver.chain.copies.bundles import BundleCheck
from quiver.chain.copies.copy import BlockCopy
from quiver.chain.copies.entries import Extent
from quiver.chain.copies.generation import Generation
from quiver.chain.copies.rules import CopyRules
from quiver.chain.copies.shelf import Copies

__all__ = ["BlockCopy", "BundleCheck", "Copies", "CopyRules", "Extent", "Generation"]
