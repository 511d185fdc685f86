"""Partitions into a store of this machine, where subscribers, acks, Spark and queues read them.

==========  =================================================================
``place``   how far a partition was read, as a text in the store's log
``mirror``  reads partitions and appends their bundles, each once
==========  =================================================================
"""

from quiver.chain.mirroring.mirror import Mirror, Mirrored

__all__ = ["Mirror", "Mirrored"]
