"""Metadata by way of nodes: for clients that know a node's address, and not where metadata are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeVar

from quiver.chain.metadata import Kept, Revision
from quiver.chain.metadata.store import check_data
from quiver.chain.wire.client import RemotePeer
from quiver.chain.wire.messages import (
    Done,
    Found,
    Keys,
    Message,
    MetaCas,
    MetaDelete,
    MetaGet,
    MetaKeys,
    Put,
)
from quiver.disk import Bytes
from quiver.errors import ConfigError, RemoteError
from quiver.ship.objects import UnclearError

__all__ = ["CarriedMetadata"]

_T = TypeVar("_T")


class CarriedMetadata:
    """Asks one node, and the next when that one cannot be reached. Safe for many threads."""

    def __init__(self, peers: Sequence[RemotePeer], place: str) -> None:
        """Take nodes in the order in which they are tried; none is asked yet."""
        if not peers:
            raise ConfigError("no node is named", hint="as quiver://host:port,host:port")
        self._peers = list(peers)
        self._place = place
        self._lock = threading.Lock()
        self._first = 0

    @property
    def place(self) -> str:
        """The addresses as messages show them."""
        return self._place

    def get(self, key: str) -> Kept:
        """Read an object."""
        found = self._read(MetaGet(key), Found)
        return Kept(found.data, found.revision)

    def peek(self, key: str) -> bytes:
        """Read what an object is just now."""
        return self.get(key).data

    def cas(self, key: str, revision: Revision | None, data: Bytes) -> Revision:
        """Put an object if ``revision`` names what is there; None: only if nothing is."""
        asked = MetaCas(key, revision or "", check_data(key, data))
        return self._write(asked, Put).revision

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with ``prefix``, sorted."""
        return list(self._read(MetaKeys(prefix), Keys).keys)

    def delete(self, key: str) -> None:
        """Delete an object; one that is missing is deleted."""
        self._write(MetaDelete(key), Done)

    def _read(self, asked: Message, kind: type[_T]) -> _T:
        """Ask each node until one answers."""
        fault: RemoteError | None = None
        for _ in self._peers:
            first, peer = self._peer()
            try:
                return peer.ask(asked, kind)
            except RemoteError as error:
                if not error.retryable:
                    raise
                fault = error
                self._next(first)
        raise fault or AssertionError("unreachable")

    def _write(self, asked: Message, kind: type[_T]) -> _T:
        """Ask one node, once: what it does not answer may have been done."""
        first, peer = self._peer()
        try:
            return peer.ask(asked, kind)
        except RemoteError as error:
            if type(error) is not RemoteError or not error.retryable:
                raise
            self._next(first)
            raise UnclearError(error.message, path=error.path, retryable=True) from error

    def _peer(self) -> tuple[int, RemotePeer]:
        with self._lock:
            return self._first, self._peers[self._first % len(self._peers)]

    def _next(self, failed: int) -> None:
        """Ask the next one, unless another thread that failed with this one does so already."""
        with self._lock:
            if self._first == failed:
                self._first += 1

    def __repr__(self) -> str:
        """Say which one it is."""
        return f"CarriedMetadata({self._place!r})"
