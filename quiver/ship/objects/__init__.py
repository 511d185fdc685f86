"""What is asked of an object store, and the stores that give it.

===========  =====================================================================
``bucket``   the protocol: what each act promises, and what its errors say
``keys``     what may be a key
``memory``   a store in the memory of this process
===========  =====================================================================
"""

from quiver.ship.objects.bucket import (
    Bucket,
    Conflict,
    Found,
    Listed,
    Tag,
    UnclearError,
    own_key,
    root_key,
)
from quiver.ship.objects.memory import MemoryBucket

__all__ = [
    "Bucket",
    "Conflict",
    "Found",
    "Listed",
    "MemoryBucket",
    "Tag",
    "UnclearError",
    "own_key",
    "root_key",
]
