"""What runs in the barrier channel of an executor, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from quiver.source.format import SplitState
from quiver.source.protocols import Split

__all__ = ["AssignSplits", "Barrier", "BarrierPassed", "Mutation", "Pause", "Resume"]


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """From this barrier on exactly these splits are read.

    ``states`` is where a split begins that is not read here yet, unless a newer state of it is
    known here. As of epoch 0 it is a start for a split that nobody has read; of a split that comes
    from another executor it is what that one had at its last barrier, as of that epoch. A split
    that goes and is in ``dropped`` is forgotten; one that only goes may come back, and goes on.
    """

    splits: tuple[Split, ...]
    states: Mapping[str, SplitState] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is read from this barrier on."""


@dataclass(frozen=True, slots=True)
class Resume:
    """It is read again from this barrier on."""


Mutation: TypeAlias = "AssignSplits | Pause | Resume"


@dataclass(frozen=True, slots=True)
class Barrier:
    """The end of an epoch: its number, and what changes behind it, in order."""

    epoch: int
    mutations: tuple[Mutation, ...] = ()


@dataclass(frozen=True, slots=True)
class BarrierPassed:
    """All chunks before this belong to epochs up to ``barrier.epoch``; its states are on disk."""

    barrier: Barrier
    states: Mapping[str, SplitState]
