"""What tasks beside a loader tell it; ``rolling`` knows the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from quiver.chain.peers import Stream
from quiver.chain.record import Record
from quiver.chain.rolling import Answered, ClaimNow, CommitNow, PlaceNow
from quiver.errors import QuiverError

__all__ = [
    "Again",
    "Begun",
    "Claims",
    "Commits",
    "Failed",
    "GraceOver",
    "Happening",
    "Looked",
    "Lost",
    "Mended",
    "Opened",
    "Places",
    "Slow",
    "StreamBroke",
    "Unanswered",
    "Wanted",
]


@dataclass(frozen=True, slots=True)
class Begun:
    """The record as it was found."""

    record: Record


@dataclass(frozen=True, slots=True)
class Claims:
    """The claim was put."""

    record: Record


@dataclass(frozen=True, slots=True)
class Commits:
    """The commit was put."""

    record: Record


@dataclass(frozen=True, slots=True)
class Failed:
    """An act could not be done; it is tried again, unless it never can be."""

    act: ClaimNow | CommitNow | PlaceNow | None
    error: QuiverError


@dataclass(frozen=True, slots=True)
class Again:
    """It was waited for long enough: the act is tried again."""

    act: ClaimNow | CommitNow | PlaceNow | None


@dataclass(frozen=True, slots=True)
class Slow:
    """A claim was asked for in this epoch, and it was waited for."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Places:
    """Room was made for a block, in this epoch."""

    act: PlaceNow
    locations: tuple[str, ...]
    epoch: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A location did not promise."""

    epoch: int
    location: str
    error: QuiverError


@dataclass(frozen=True, slots=True)
class GraceOver:
    """Whoever was to promise this epoch had time to."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Looked:
    """There were nodes for more copies than this block has, or not."""

    turn: int
    is_wider: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else has the partition."""

    error: QuiverError


@dataclass(frozen=True, slots=True)
class Opened:
    """The stream of the open block, the how manieth it is."""

    turn: int
    stream: Stream


@dataclass(frozen=True, slots=True)
class StreamBroke:
    """Nothing goes down this stream any more."""

    turn: int
    error: QuiverError


@dataclass(frozen=True, slots=True)
class Mended:
    """Two nodes that did not reach each other may do so again."""

    pair: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The loader is to be closed."""


Happening: TypeAlias = (
    Begun
    | Claims
    | Commits
    | Failed
    | Again
    | Places
    | Slow
    | Answered
    | Unanswered
    | GraceOver
    | Looked
    | Lost
    | Opened
    | StreamBroke
    | Mended
    | Wanted
)
