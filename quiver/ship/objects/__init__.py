"""What is asked of an object store, and the stores that give it.

============  ====================================================================
``bucket``    the protocol: what each act promises, and what its errors say
``keys``      what may be a key
``address``   which bucket a URL or a path names, and the bucket opened
``options``   how a remote store is reached, by the names that its users know
``remote``    a remote store, by way of obstore
``refusals``  what obstore raises, said as one of our errors
``folder``    a folder of this machine
``memory``    a store in the memory of this process
``probe``     whether a store keeps what it must keep
============  ====================================================================

All but ``remote`` works without obstore, which is the extra ``ship``.
"""

from quiver.ship.objects.address import is_remote, open_bucket
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
from quiver.ship.objects.folder import FolderBucket
from quiver.ship.objects.memory import MemoryBucket
from quiver.ship.objects.probe import probe
from quiver.ship.objects.remote import RemoteBucket

__all__ = [
    "Bucket",
    "Conflict",
    "FolderBucket",
    "Found",
    "Listed",
    "MemoryBucket",
    "RemoteBucket",
    "Tag",
    "UnclearError",
    "is_remote",
    "open_bucket",
    "own_key",
    "probe",
    "root_key",
]
