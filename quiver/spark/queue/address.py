"""Which paths are queues, and the object store of one that is."""

from __future__ import annotations

import os
import posixpath
from contextlib import closing, suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from quiver.disk import LocalDisk
from quiver.errors import ConfigError, InputError, StorageError
from quiver.manifest import MANIFEST_NAME
from quiver.ship.objects import Bucket, open_bucket
from quiver.ship.queue import MANIFEST_KEY
from quiver.spark.options import Options

__all__ = ["bucket_of", "is_queue"]

_MEMORY: Final = "memory:"
_FILE: Final = "file:"


def is_queue(path: str) -> bool:
    """Whether a path names a queue: it has a scheme, or is a folder that holds one and no store."""
    if "://" in path or path.startswith(_MEMORY):
        return True
    return _has(path, MANIFEST_KEY) and not _has(path, MANIFEST_NAME)


def bucket_of(path: str, given: Options) -> Bucket:
    """Open the object store of a queue, with the options for it and the environment below them.

    Nothing is asked of the store. Raises ConfigError for an address or an option that has no
    meaning, and for a place that not all processes see.
    """
    if path.startswith(_MEMORY):
        raise ConfigError(
            "memory: is of one process, and Spark has several",
            hint="a queue for tests may lie in a folder: file:///path",
        )
    if path.startswith(_FILE):
        path = unquote(urlsplit(path).path)
        if _has(path, MANIFEST_NAME):
            raise ConfigError(
                f"{path} is a store and no queue", hint="load it by its path, without file:"
            )
    if "://" not in path:
        path = posixpath.abspath(path)  # Tasks have another working directory.
    return open_bucket(path, options=given.bucket, environ=os.environ)


def _has(folder: str, name: str) -> bool:
    with suppress(StorageError, InputError), closing(LocalDisk(folder)) as disk:
        return disk.stat(name) is not None
    return False
