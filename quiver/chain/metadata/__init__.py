"""Where a chain keeps what all of its machines have to agree on: small objects, swapped whole.

============  ====================================================================
``store``     the protocol: what each act promises; and a swap that knows how it ended
``buckets``   over a folder of this machine, an object store, or memory
``etcd``      over etcd
``gateway``   etcd's JSON gateway: endpoints in turn, tokens, what its errors say
``opening``   which of them a URL names
============  ====================================================================
"""

from quiver.chain.metadata.buckets import BucketMetadata
from quiver.chain.metadata.etcd import EtcdMetadata
from quiver.chain.metadata.gateway import EtcdOptions
from quiver.chain.metadata.opening import open_metadata
from quiver.chain.metadata.store import DATA_BYTES_MAX, Kept, Metadata, Revision, swap

__all__ = [
    "DATA_BYTES_MAX",
    "BucketMetadata",
    "EtcdMetadata",
    "EtcdOptions",
    "Kept",
    "Metadata",
    "Revision",
    "open_metadata",
    "swap",
]
