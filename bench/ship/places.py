"""Stores that are measured: SeaweedFS on loopback, a folder of this machine, and Azurite if it is.

Each gives what reaches it, and plain puts and gets by obstore to compare with.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from azurite import AzuriteServer, azurite_missing
from seaweed import BUCKET, SeaweedServer, running, seaweed_missing

from quiver.ship.objects import Bucket, open_bucket

__all__ = ["AzuritePlace", "FolderPlace", "Place", "SeaweedPlace", "azurite", "opened", "seaweed"]

_COUNT: Final = itertools.count()


class Place(Protocol):
    """One store."""

    name: str
    options: dict[str, str]

    def fresh(self) -> str:
        """Give an address below which there is nothing yet."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Put as obstore does it, durably."""
        ...

    def get(self, key: str) -> memoryview:
        """Get as obstore does it."""
        ...


def opened(place: Place, url: str) -> Bucket:
    """Open a bucket of ours."""
    return open_bucket(url, options=place.options)


class SeaweedPlace:
    """A real S3 server, on the same two cores as its clients."""

    name = "SeaweedFS"

    def __init__(self, server: SeaweedServer) -> None:
        from obstore.store import S3Store

        self.options = server.options
        self._url = server.url
        self._store = S3Store(
            BUCKET,
            endpoint=server.endpoint,
            access_key_id=self.options["access_key_id"],
            secret_access_key=self.options["secret_access_key"],
            region=self.options["region"],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def fresh(self) -> str:
        return f"{self._url}/b{next(_COUNT)}"

    def put(self, key: str, data: bytes) -> None:
        self._store.put(key, data)

    def get(self, key: str) -> memoryview:
        return memoryview(self._store.get(key).bytes())


class FolderPlace:
    """A folder; a plain put is followed by a sync of the file and of its folder, as ours is."""

    name = "folder"

    def __init__(self, folder: Path) -> None:
        from obstore.store import LocalStore

        folder.mkdir()
        self.options: dict[str, str] = {}
        self._folder = folder
        self._store = LocalStore(folder)

    def fresh(self) -> str:
        return str(self._folder / f"b{next(_COUNT)}")

    def put(self, key: str, data: bytes) -> None:
        self._store.put(key, data)
        for path in (self._folder / key, (self._folder / key).parent):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    def get(self, key: str) -> memoryview:
        return memoryview(self._store.get(key).bytes())


class AzuritePlace:
    """Microsoft's own imitation of Azure."""

    name = "Azurite"

    def __init__(self, server: AzuriteServer) -> None:
        self.options = server.options
        self._url = server.url

    def fresh(self) -> str:
        return f"{self._url}/b{next(_COUNT)}"


@contextlib.contextmanager
def seaweed(folder: Path) -> Iterator[SeaweedPlace | str]:
    """Start SeaweedFS, or say why not."""
    if missing := seaweed_missing():
        yield missing
        return
    with running(folder) as server:
        yield SeaweedPlace(server)


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[AzuritePlace | str]:
    """Start Azurite, or say why not."""
    if missing := azurite_missing():
        yield missing
        return
    folder.mkdir()
    server = AzuriteServer(folder)
    try:
        yield AzuritePlace(server)
    finally:
        server.stop()
