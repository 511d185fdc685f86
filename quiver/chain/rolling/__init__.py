"""From one block to the next: when, and in which order what is done. Pure: events in, acts out."""

from __future__ import annotations

from quiver.chain.rolling.acts import (
    Act,
    Answered,
    Broken,
    Claimed,
    ClaimNow,
    CommitNow,
    Committed,
    CutNow,
    Event,
    FenceNow,
    Grew,
    Healed,
    Placed,
    PlaceNow,
    Ready,
    TimeUp,
    Widen,
)
from quiver.chain.rolling.roll import Roll, RollRules, begin, close, step

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
    "Roll",
    "RollRules",
    "TimeUp",
    "Widen",
    "begin",
    "close",
    "step",
]
