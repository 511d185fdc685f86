"""Reading partitions that are kept by nodes, in order of time, whoever of the nodes is lost.

=============  ====================================================================
``message``    what a cursor gives, and where it is
``decoding``   entries of a log, or a finished segment, as messages
``following``  one partition: block after block, from whatever copy answers
``cursor``     any partitions, merged by time
=============  ====================================================================
"""

from quiver.chain.reading.cursor import ChainCursor, CursorRules
from quiver.chain.reading.message import ChainMessage, ChainPosition, Silence

__all__ = ["ChainCursor", "ChainMessage", "ChainPosition", "CursorRules", "Silence"]
