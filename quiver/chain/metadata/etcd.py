"""Metadata in etcd, version 3, by way of its JSON gateway: the standard library is enough.

A revision is the ``mod_revision`` of a key, which no other state of it ever had, also when it was
deleted between. Nothing is read as of an old revision, so a compaction changes nothing here.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from quiver.chain.metadata.gateway import EtcdOptions, Gateway
from quiver.chain.metadata.store import Kept, Revision, check_data
from quiver.disk import Bytes
from quiver.errors import MissingError, RemoteError
from quiver.ship.objects import Conflict
from quiver.ship.objects.keys import check_base, full_key

__all__ = ["EtcdMetadata"]

_PAGE: Final = 500


class EtcdMetadata:
    """Objects below a path of an etcd."""

    def __init__(
        self,
        endpoints: list[tuple[str, int]],
        path: str = "",
        *,
        options: EtcdOptions | None = None,
    ) -> None:
        """Take hosts and ports; none is asked yet."""
        self._gateway = Gateway(endpoints, options or EtcdOptions())
        self._base = check_base(path)
        listed = ",".join(f"{host}:{port}" for host, port in endpoints)
        self._place = f"etcd://{listed}/{self._base.rstrip('/')}"

    @property
    def place(self) -> str:
        """Its address as messages show it."""
        return self._place

    def get(self, key: str) -> Kept:
        """Read an object."""
        full = self._full(key)
        rows = self._rows(self._gateway.read("kv/range", {"key": _text(full)}))
        if not rows:
            raise MissingError(f"there is no {full} in {self._place}", path=full)
        return Kept(self._bytes(rows[0].get("value", "")), self._revision(rows[0]))

    def peek(self, key: str) -> bytes:
        """Read what an object is just now."""
        return self.get(key).data

    def cas(self, key: str, revision: Revision | None, data: Bytes) -> Revision:
        """Put an object if ``revision`` names what is there; None: only if nothing is."""
        full = self._full(key)
        put = {"key": _text(full), "value": _text(check_data(key, data))}
        compare = {
            "target": "MOD",
            "key": _text(full),
            "result": "EQUAL",
            "mod_revision": revision or "0",
        }
        asked = {"compare": [compare], "success": [{"request_put": put}]}
        answer = self._gateway.write("kv/txn", asked)
        if answer.get("succeeded") is not True:
            raise Conflict(f"{full} in {self._place} is not the one that was read", path=full)
        header = answer.get("header")
        if not isinstance(header, dict):
            raise self._nonsense("an answer has no header")
        return self._number(header.get("revision"))

    def keys(self, prefix: str) -> list[str]:
        """List the keys that begin with ``prefix``, sorted."""
        begin = (self._base + prefix).encode()
        at, end = begin or b"\0", _behind(begin)
        found: list[bytes] = []
        while True:
            asked = {
                "key": _text(at),
                "range_end": _text(end),
                "keys_only": True,
                "limit": str(_PAGE),
            }
            answer = self._gateway.read("kv/range", asked)
            page = [self._bytes(row.get("key")) for row in self._rows(answer)]
            if any(key < at for key in page):
                raise self._nonsense("a listing goes back")
            found += page
            if not answer.get("more") or not page:
                break
            at = page[-1] + b"\0"
        skip = len(self._base)
        return sorted(key.decode(errors="surrogateescape")[skip:] for key in found)

    def delete(self, key: str) -> None:
        """Delete an object; one that is missing is deleted."""
        self._gateway.write("kv/deleterange", {"key": _text(self._full(key))})

    def _full(self, key: str) -> str:
        return full_key(self._base, key)

    def _rows(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        rows = answer.get("kvs", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._nonsense("a listing is no list")
        return rows

    def _bytes(self, text: object) -> bytes:
        try:
            return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise self._nonsense("a value is no base64") from None

    def _revision(self, row: dict[str, Any]) -> Revision:
        return self._number(row.get("mod_revision"))

    def _number(self, text: object) -> Revision:
        if not isinstance(text, str) or not text.isascii() or not text.isdigit():
            raise self._nonsense("a revision is no number")
        return text

    def _nonsense(self, what: str) -> RemoteError:
        hint = "is it an etcd of version 3.4 or newer?"
        return RemoteError(f"{what} from {self._place}", path=self._place, hint=hint)

    def __repr__(self) -> str:
        """Say which one it is."""
        return f"EtcdMetadata({self._place!r})"


def _text(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _behind(prefix: bytes) -> bytes:
    """Give the first key behind all that begin with ``prefix``; a zero byte: behind all keys."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else b"\0"
