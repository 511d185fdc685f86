"""Whether a store keeps what it must keep: some take conditions and do not look at them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Final

from quiver.disk import fresh_name
from quiver.errors import QuiverError, RemoteError
from quiver.ship.objects.bucket import Bucket, Conflict, Tag
from quiver.ship.objects.folder import FolderBucket
from quiver.ship.objects.memory import MemoryBucket

__all__ = ["PROBES", "is_probed", "probe"]

PROBES: Final = "probe/"
"""How keys of probes begin: what is left of one that was killed may be deleted."""
_OURS: Final = re.compile(r"probe/[0-9a-f]{32}-[ab]")

_HINT: Final = "what many change there would be lost; use a store that keeps conditional puts"


def is_probed(key: str) -> bool:
    """Whether a key is one that a probe puts, and not somebody's who likes the word."""
    return _OURS.fullmatch(key) is not None


def probe(bucket: Bucket, *, name: Callable[[], str] = fresh_name, known: bool = True) -> None:
    """Try what queues and collections rely on; raises RemoteError with the fault of a store.

    Buckets in memory and in a folder are not tried unless ``known`` is False. It takes about ten
    requests, to keys that nobody else has, and deletes what it put.
    """
    if known and isinstance(bucket, (MemoryBucket, FolderBucket)):
        return
    stem = f"{PROBES}{name()}"
    keys = [f"{stem}-a", f"{stem}-b"]
    try:
        _try(bucket, *keys)
    except BaseException:
        with contextlib.suppress(QuiverError):  # The first error is the one to tell.
            bucket.delete(keys)
        raise
    if left := bucket.delete(keys):
        raise _unfit(bucket, f"it does not delete {left[0]}")


def _try(bucket: Bucket, key: str, other: str) -> None:
    first = bucket.put_if(key, b"1", None)
    if _was_put(bucket, key, None):
        raise _unfit(bucket, "it puts over an object that is there, though asked not to")
    try:
        second = bucket.put_if(key, b"3", first)
    except Conflict:
        raise _unfit(bucket, "it refuses to replace an object that is as its tag says") from None
    if _was_put(bucket, key, first):
        raise _unfit(bucket, "it replaces an object that is not the one that the tag names")
    if _was_put(bucket, other, second):
        raise _unfit(bucket, "it makes an object where it should replace one that is not there")
    found = bucket.get(key)
    if bytes(found.data) != b"3" or found.tag != second:
        raise _unfit(bucket, "a read does not give what was put last")
    if bucket.get_if_changed(key, first) is None:
        raise _unfit(bucket, "it says that an object did not change, but it did")
    if key not in {seen.key for seen in bucket.list(PROBES)}:
        raise _unfit(bucket, "it does not list what is in it")


def _was_put(bucket: Bucket, key: str, tag: Tag | None) -> bool:
    """Whether a put went through that had to be refused."""
    try:
        bucket.put_if(key, b"2", tag)
    except Conflict:
        return False
    return True


def _unfit(bucket: Bucket, fault: str) -> RemoteError:
    return RemoteError(
        f"{bucket.place} is no store for queues and collections: {fault}",
        path=bucket.place,
        hint=_HINT,
    )
