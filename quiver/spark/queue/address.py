"""Which paths are queues, and the object store of one that is."""

from __future__ import annotations

from quiver.manifest import MANIFEST_NAME
from quiver.ship.objects import Bucket
from quiver.ship.queue import MANIFEST_KEY
from quiver.spark.options import Options
from quiver.spark.places import MEMORY, bucket_at, holds

__all__ = ["bucket_of", "is_queue"]


def is_queue(path: str) -> bool:
    """Whether a path names a queue: it has a scheme, or is a folder that holds one and no store."""
    if "://" in path or path.startswith(MEMORY):
        return True
    return holds(path, MANIFEST_KEY) and not holds(path, MANIFEST_NAME)


def bucket_of(path: str, given: Options) -> Bucket:
    """Open the object store of a queue, with the options for it and the environment below them.

    Nothing is asked of the store. Raises ConfigError for an address or an option that has no
    meaning, and for a place that not all processes see.
    """
    return bucket_at(path, given.bucket, noun="queue")
