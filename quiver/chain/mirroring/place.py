"""How far a partition was read, as a state in the log of the store that it is read into.

The name under which it is kept has a number of the cluster's own in it, which the first mirror puts
into its metadata, and none of its addresses: nodes come and go, and two clusters may each have a
``core_0``.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from quiver.chain.metadata import Metadata, swap
from quiver.chain.reading import ChainPosition
from quiver.clock import Clock
from quiver.errors import InputError, MissingError
from quiver.source.states import decode_state, encode_state

__all__ = ["decode_place", "encode_place", "identity", "source_name"]

_CONNECTOR: Final = "chain"
_VERSION: Final = 1
_KEY: Final = "identity"
_ID_BYTES: Final = 16
_ID: Final = re.compile(rb"[0-9a-f]{32}")
_LIMITS: Final = (-(1 << 63), (1 << 63) - 1)
_FIELDS: Final = ("time_ns", "wal_seq")


def identity(metadata: Metadata, clock: Clock) -> str:
    """Give the number by which a cluster is told from others; it gets one if it has none."""
    try:
        found = metadata.get(_KEY).data
    except MissingError:
        swap(metadata, _KEY, None, data=secrets.token_hex(_ID_BYTES).encode(), clock=clock)
        found = metadata.get(_KEY).data
    if _ID.fullmatch(found) is None:
        raise InputError(
            f"{metadata.place} says that its identity is {found!r:.80}",
            hint="32 hexadecimal digits are one; something else wrote there",
        )
    return found.decode()


def source_name(cluster: str, partition: str) -> str:
    """Name a partition as a source of a store."""
    return f"{_CONNECTOR}:{cluster}:{partition}"


def encode_place(at: ChainPosition) -> str:
    """Write a position as a state."""
    return encode_state(_CONNECTOR, _VERSION, at._asdict())


def decode_place(state: str) -> ChainPosition:
    """Read a state; InputError if it is none."""
    at = decode_state(state, connector=_CONNECTOR, version=_VERSION)
    found = [at.get(name) for name in _FIELDS]
    low, high = _LIMITS
    if set(at) != set(_FIELDS) or not all(type(n) is int and low <= n <= high for n in found):
        raise InputError(
            f"a state of a partition says {sorted(at.items())!r:.120}",
            hint="it has time_ns and wal_seq, both integers",
        )
    return ChainPosition(*found)  # type: ignore[arg-type]
