"""What a cursor gives, and where it is."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from quiver.bundle import RecordBundle

__all__ = ["ChainMessage", "ChainPosition", "Silence"]


class ChainPosition(NamedTuple):
    """Which bundle of a partition was given last."""

    time_ns: int
    wal_seq: int


class ChainMessage(NamedTuple):
    """One bundle; those of several partitions come by the first three fields, in this order."""

    time_ns: int
    partition: str
    wal_seq: int
    bundle: RecordBundle
    is_behind_abandoned: bool = False
    """Whether a block right before it was given up: what was in that, if anything, is lost."""


class Silence(Enum):
    """Why no message of a partition comes just now."""

    IDLE = "there is none yet"
    UNKNOWN = "nobody who could say so was reached yet, or is reached any more"
