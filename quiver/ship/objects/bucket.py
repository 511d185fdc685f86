"""What the queue asks of an object store, with the durability and atomicity of each act in words.

A ``Bucket`` is one flat name space: a key is a path without a leading ``/``, an object is bytes
that are replaced whole. Implementations: any store that obstore speaks to, a folder of this
machine, and memory for tests.

A bucket may be opened some way below the root of its store: ``base`` says where, and keys are
relative to it. What is kept and read by others names objects from the root, as ``root_key`` does;
``own_key`` turns such a name into a key again. A key that begins with ``/`` is one from the root,
so that an object which somebody put elsewhere in the store can be read all the same.

==============  =====================================================================
act             when it returns
==============  =====================================================================
put, write      the object is durable, and every read that starts later sees it
put_if          the same, and nothing was put between the object that ``tag`` names and this one
delete          reads that start later do not find it
==============  =====================================================================

An act that raises ``Conflict`` or ``UnclearError`` may all the same have been done: the answer was
lost, and a store that tries again on its own then meets its first try. Whoever must know reads
again and looks for what he put.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quiver.disk import Bytes
from quiver.errors import RemoteError

__all__ = [
    "Bucket",
    "Conflict",
    "Found",
    "Listed",
    "Tag",
    "UnclearError",
    "own_key",
    "root_key",
]

Tag: TypeAlias = str
"""Names one state of one object; opaque. Some stores make it of the bytes alone, so that an object
which was replaced by equal bytes keeps it."""


class Conflict(RemoteError):
    """The object is not the one that the tag names, or it is there and should not be."""


class UnclearError(RemoteError):
    """The store gave no answer that says whether the act was done."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read: its bytes, contiguous, and the tag for ``put_if``."""

    data: Bytes
    tag: Tag


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it. ``changed_ms`` is by the store's clock, since 1970."""

    key: str
    size: int
    changed_ms: int


class Bucket(Protocol):
    """One store, or one folder in it. Safe for many threads; a fork opens its own."""

    @property
    def place(self) -> str:
        """Its address as messages show it, without credentials."""
        ...

    @property
    def base(self) -> str:
        """Where its keys begin below the root of the store: "" or a path that ends in ``/``."""
        ...

    def get(self, key: str) -> Found:
        """Read an object whole. Raises MissingError, RemoteError, UnclearError."""
        ...

    def get_if_changed(self, key: str, tag: Tag) -> Found | None:
        """Read an object unless it still is the one that ``tag`` names: then None."""
        ...

    def read(self, key: str) -> Bytes:
        """Read an object whole, without a tag and where the store can without a copy. As ``get``.

        For objects that are never replaced, and that something which is durable names: a new name
        may be seen here before it would survive a power cut. What was read stays as it is, whatever
        becomes of the object.
        """
        ...

    def put(self, key: str, data: Bytes | Sequence[Bytes]) -> Tag:
        """Put an object, whatever was there; parts are joined."""
        ...

    def write(self, key: str, data: Bytes | Sequence[Bytes] | Iterator[Bytes]) -> None:
        """Put an object whose tag nobody wants.

        Parts that an iterator makes a folder asks for one by one, and holds none of them; other
        stores put them together. What making one raises is raised, and nothing is there.
        """
        ...

    def put_if(self, key: str, data: Bytes, tag: Tag | None, *, within: float | None = None) -> Tag:
        """Put an object if ``tag`` names what is there; None: only if nothing is. Or Conflict.

        A server that has no answer within about so many seconds is not waited for: UnclearError.
        """
        ...

    def list(self, prefix: str) -> Iterator[Listed]:
        """Go through objects whose keys begin with ``prefix``, in no promised order."""
        ...

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete objects and return the keys that could not be; one that is missing could."""
        ...


def root_key(bucket: Bucket, key: str) -> str:
    """Give the name of an object from the root of its store, without a leading ``/``."""
    return key[1:] if key.startswith("/") else bucket.base + key


def own_key(bucket: Bucket, root_key: str) -> str:
    """Give the key by which ``bucket`` knows the object of this name from the root."""
    base = bucket.base
    return root_key[len(base) :] if root_key.startswith(base) else "/" + root_key
