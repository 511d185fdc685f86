"""What ack.log can say: one value for each kind of record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "DEAD_ATTEMPTS",
    "DEAD_REJECTED",
    "DROPPED_AGE",
    "DROPPED_DAMAGED",
    "DROPPED_OPERATOR",
    "DROPPED_SIZE",
    "Ack",
    "DeadLetter",
    "Dropped",
    "Floor",
    "Lease",
    "Nack",
    "Pause",
    "Record",
    "Register",
    "Rename",
    "Unregister",
]

DROPPED_SIZE: Final = 1
"""Why a bundle was dropped: the size cap, under ``drop_oldest``."""
DROPPED_AGE: Final = 2
DROPPED_DAMAGED: Final = 3
DROPPED_OPERATOR: Final = 4

DEAD_REJECTED: Final = 1
"""Why a bundle was given up: the consumer rejected it."""
DEAD_ATTEMPTS: Final = 2


class Ack(NamedTuple):
    """A subscriber is done with bundles ``[bundle_first, bundle_first + bundle_count)``.

    A tuple, since nearly all records are acks, and one is made in a third of the time.
    """

    subscriber_id: int
    segment_seq: int
    bundle_first: int
    bundle_count: int
    at_ns: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """Bundles that a subscriber never gets, by the user's choice; resolves them as an ack does."""

    subscriber_id: int
    segment_seq: int
    bundle_first: int
    bundle_count: int
    at_ns: int
    reason: int = DROPPED_SIZE


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Bundles given up for a subscriber, a copy set aside before; resolves them as an ack does."""

    subscriber_id: int
    segment_seq: int
    bundle_first: int
    bundle_count: int
    at_ns: int
    attempt: int = 0
    reason: int = DEAD_REJECTED
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Nack:
    """Delivery number ``attempt`` of a bundle failed; it is not offered before a wall time."""

    subscriber_id: int
    segment_seq: int
    bundle_index: int
    attempt: int
    not_before_ns: int
    at_ns: int
    reason: int = 0
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Register:
    """A subscriber id starts, from nothing, and gets the bundles from a start position on."""

    subscriber_id: int
    name: str
    at_ns: int = 0
    start_segment_seq: int = 0
    start_bundle_index: int = 0


@dataclass(frozen=True, slots=True)
class Unregister:
    """A subscriber id ends and its state is forgotten."""

    subscriber_id: int
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """A subscriber gets no more deliveries, or gets them again if not ``paused``."""

    subscriber_id: int
    at_ns: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """From now on only outcomes under this lease of a subscriber, or a higher one, count."""

    subscriber_id: int
    lease: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Rename:
    """A subscriber id goes on, with all its progress, under another name."""

    subscriber_id: int
    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Floor:
    """The sequences below these two are used up for ever."""

    next_segment_seq: int = 0
    next_wal_seq: int = 0
    at_ns: int = 0


Record: TypeAlias = (
    Ack | Nack | Dropped | DeadLetter | Register | Unregister | Pause | Lease | Rename | Floor
)
