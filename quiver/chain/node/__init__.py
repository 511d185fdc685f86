"""A node of a chain, whatever wire it stands behind.

===========  ====================================================================
``quota``    how much of a disk they may take
``passage``  entries on their way through it: written, synced, passed on
``node``     copies and passages as one ``Peer``
===========  ====================================================================
"""

from quiver.chain.node.node import LocalNode

__all__ = ["LocalNode"]
