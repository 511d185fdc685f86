"""The object store that a path names, where every process of Spark finds it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from quiver.disk import LocalDisk
from quiver.errors import ConfigError, InputError, StorageError
from quiver.manifest import MANIFEST_NAME
from quiver.ship.objects import Bucket, open_bucket

__all__ = ["MEMORY", "bucket_at", "holds"]

MEMORY: Final = "memory:"
_FILE: Final = "file:"


def bucket_at(path: str, options: Mapping[str, str], *, noun: str) -> Bucket:
    """Open the object store at a path, with options and below them the environment.

    Nothing is asked of it. Raises ConfigError for an address or an option that has no meaning, for
    a place that not all processes see, and for a store of ours, which is no ``noun``.
    """
    if path.startswith(MEMORY):
        raise ConfigError(
            "memory: is of one process, and Spark has several",
            hint=f"a {noun} for tests may lie in a folder: file:///path",
        )
    if path.startswith(_FILE):
        path = unquote(urlsplit(path).path)
    if "://" not in path:
        path = posixpath.abspath(path)  # Tasks have another working directory.
        if holds(path, MANIFEST_NAME):
            raise ConfigError(
                f"{path} is a store and no {noun}",
                hint='load it by its path, without file:, with format("quiver")',
            )
    return open_bucket(path, options=options, environ=os.environ)


def holds(folder: str, name: str) -> bool:
    """Whether there is a folder here that has a file of this name."""
    with suppress(StorageError, InputError), closing(LocalDisk(folder)) as disk:
        return disk.stat(name) is not None
    return False
