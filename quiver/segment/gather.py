"""Payloads of bundles grouped by what may share a stream: slot, fingerprint and schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from quiver.ipc import decode_stream, schema_message
from quiver.payload import EncodedBundle
from quiver.segment.open_segment import check_bundle
from quiver.segment.rest import Rest

__all__ = ["Key", "Members", "gather"]

Key: TypeAlias = tuple[int, bytes, bytes]
"""A slot, a fingerprint, and the message with the schema."""


class Members(NamedTuple):
    """Payloads of one key, as columns: the index of the bundle of each, its bytes, its rows."""

    bundles: list[int]
    payloads: list[memoryview]
    rows: list[int]

    @classmethod
    def none(cls) -> Members:
        """Begin without one."""
        return cls([], [], [])


def gather(
    bundles: Sequence[EncodedBundle], first: int, *, trusted: bool, rest: Rest
) -> dict[Key, Members]:
    """Group the payloads of bundles, of which the first has the index ``first``.

    Raises DamagedEntry for a payload that is not what it says, unless they are ``trusted``.
    """
    gathered: dict[Key, Members] = {}
    last: dict[tuple[int, bytes], tuple[bytes, Members]] = {}
    for index, bundle in enumerate(bundles, first):
        check_bundle(bundle)
        rest()
        for slot_id, _, fingerprint, rows, data in bundle.payloads:
            if not trusted:
                decode_stream(data, rows=rows)
            payload = memoryview(data)
            known = last.get((slot_id, fingerprint))
            # Two schemas that share a fingerprint by mistake are kept apart here and not
            # refused, since the bundles were taken long ago.
            if known is None or bytes(payload[: len(known[0])]) != known[0]:
                key = slot_id, fingerprint, schema_message(payload)
                known = key[2], gathered.setdefault(key, Members.none())
                last[slot_id, fingerprint] = known
            members = known[1]
            members.bundles.append(index)
            members.payloads.append(payload)
            members.rows.append(rows)
    return gathered
