"""What a roll is told, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quiver.chain.record import Claim, Following, Record
from quiver.chain.sealing import Answer, Sealed

__all__ = [
    "Act",
    "Answered",
    "Broken",
    "ClaimNow",
    "Claimed",
    "CommitNow",
    "Committed",
    "CutNow",
    "Event",
    "FenceNow",
    "Grew",
    "Healed",
    "PlaceNow",
    "Placed",
    "Ready",
    "TimeUp",
    "Widen",
]

# Told -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grew:
    """The open block has so many bytes, and the next entry is about to come."""

    length: int
    is_later: bool = True
    """The next entry has a later time than the last one: a roll parts no run."""


@dataclass(frozen=True, slots=True)
class Widen:
    """The open block has fewer locations than it should, and there are nodes for more."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Nothing goes down the chain: an error, silence, or somebody takes over."""

    pair: tuple[str, str] | None = None
    """Two locations that do not reach each other, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Healed:
    """These two reach each other again, or their fault is long ago."""

    pair: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Placed:
    """These may have the next block; asked for by ``PlaceNow``."""

    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """All of these have made room for the block of this number; none: it did not come about."""

    number: int
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """The record after the claim was put."""

    record: Record


@dataclass(frozen=True, slots=True)
class Answered:
    """A location has promised this epoch, and says what it has."""

    epoch: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class TimeUp:
    """Who has not answered by now is not waited for."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The record after the commit was put."""

    record: Record


Event: TypeAlias = (
    Grew | Widen | Broken | Healed | Placed | Ready | Claimed | Answered | TimeUp | Committed
)

# Asked for --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaceNow:
    """Choose locations for the block of this number; make room there if ``ahead``."""

    number: int
    avoid: frozenset[tuple[str, str]]
    ahead: bool


@dataclass(frozen=True, slots=True)
class ClaimNow:
    """Put the record with the next epoch claimed."""

    by: str


@dataclass(frozen=True, slots=True)
class FenceNow:
    """Ask these, all at once, to promise the epoch and to say what they have."""

    number: int
    epoch: int
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitNow:
    """Put the record with the open block ended."""

    claim: Claim
    sealed: Sealed | None
    following: Following | None


@dataclass(frozen=True, slots=True)
class CutNow:
    """Have these cut their copies, and send again what lies behind ``last_seq``."""

    number: int
    sealed: Sealed


Act: TypeAlias = PlaceNow | ClaimNow | FenceNow | CommitNow | CutNow
