"""The order in which a block ends and the next one begins.

::

    writing --90 %--> place ahead --ready--> writing --100 %, later--> claim
    writing --too few locations, and nodes for more--> place ahead --ready--> claim
    writing --broken, closed--> claim --> fence --all, or time is up--> decide
    decide --somebody answered--> place, if nobody is ready --> commit --> cut --> writing
    decide --nobody did--> fence again

A copy is cut when the commit was put, and never before. Whoever carries out the acts gives back
what came of each; a FencedError of claim or commit ends the roll: the record has to be read again.
Who finds a claim of his own that was not committed claims anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final

from quiver.chain.record import Claim, Following, Record
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
from quiver.chain.sealing import Answer, Sealed, Wait, decide
from quiver.errors import InputError

__all__ = ["Phase", "Roll", "RollRules", "begin", "close", "step"]

_AHEAD: Final = 0.9

Acts = tuple[Act, ...]


class Phase(Enum):
    """What is waited for."""

    WRITING = "writing"
    CLAIMING = "claiming"
    FENCING = "fencing"
    PLACING = "placing"
    COMMITTING = "committing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class RollRules:
    """Who rolls, and when."""

    by: str
    """A name that nobody else ever has."""
    soft_bytes: int = 100_000_000
    is_synced: bool = True


@dataclass(frozen=True, slots=True)
class Roll:
    """Where a loader is between one block and the next."""

    rules: RollRules
    record: Record
    phase: Phase = Phase.WRITING
    is_placing: bool = False
    is_widening: bool = False
    ready: tuple[str, ...] = ()
    avoid: frozenset[tuple[str, str]] = frozenset()
    answers: tuple[Answer, ...] = ()
    sealed: Sealed | None = None
    is_closing: bool = False


def begin(rules: RollRules, record: Record) -> tuple[Roll, Acts]:
    """Begin with a record: go on with a block that is one's own, else claim and end what there is.

    Whoever carries out the claim decides whether it may be taken from another.
    """
    roll = Roll(rules, record)
    is_own = record.open is not None and record.writer == rules.by and not record.sealing_by
    return (roll, ()) if is_own else _claim(roll)


def close(roll: Roll) -> tuple[Roll, Acts]:
    """End the open block, and open none; who has a place for the next one is not waited for."""
    closing = replace(roll, is_closing=True)
    if roll.phase is Phase.PLACING:
        return _commit(closing)
    return _claim(closing) if roll.phase is Phase.WRITING else (closing, ())


def step(roll: Roll, event: Event) -> tuple[Roll, Acts]:  # noqa: C901
    """Take in what happened; what is told too late, or twice, changes nothing."""
    match event:
        case Grew():
            return _grew(roll, event)
        case Ready(number, locations):
            if number != roll.record.next_number or not roll.is_placing:
                return roll, ()
            ready = replace(roll, ready=locations, is_placing=bool(locations))
            return _wider(ready) if roll.is_widening else (ready, ())
        case Widen() if roll.phase is Phase.WRITING:
            widening = replace(roll, is_widening=True)
            if roll.ready:
                return _wider(widening)
            return (widening, ()) if roll.is_placing else _place_ahead(widening)
        case Broken(pair):
            return _broken(roll, pair)
        case Healed(pair):
            return replace(roll, avoid=roll.avoid - {_sorted(pair)}), ()
        case Claimed(record) if roll.phase is Phase.CLAIMING:
            return _claimed(roll, record)
        case Answered(epoch, answer) if roll.phase is Phase.FENCING and epoch == roll.record.epoch:
            return _answered(roll, answer)
        case TimeUp() if roll.phase is Phase.FENCING:
            return _decided(roll)
        case Placed(locations) if roll.phase is Phase.PLACING:
            return _commit(replace(roll, ready=locations))
        case Committed(record) if roll.phase is Phase.COMMITTING:
            return _committed(roll, record)
    return roll, ()


def _grew(roll: Roll, event: Grew) -> tuple[Roll, Acts]:
    """Prepare ahead; roll when all are ready, and until then go on in the old block."""
    soft = roll.rules.soft_bytes
    if roll.phase is not Phase.WRITING:
        return roll, ()
    if event.length >= soft and event.is_later and roll.ready:
        return _claim(roll)
    if event.length >= _AHEAD * soft and not roll.ready and not roll.is_placing:
        return _place_ahead(roll)
    return roll, ()


def _place_ahead(roll: Roll) -> tuple[Roll, Acts]:
    act = PlaceNow(roll.record.next_number, roll.avoid, ahead=True)
    return replace(roll, is_placing=True), (act,)


def _wider(roll: Roll) -> tuple[Roll, Acts]:
    """Roll below the limit if that makes more copies; else what was made ready is for nothing."""
    roll, opened = replace(roll, is_widening=False), roll.record.open
    if roll.phase is not Phase.WRITING or opened is None:
        return roll, ()
    if len(opened.locations) < min(len(roll.ready), roll.record.rf):
        return _claim(roll)
    return replace(roll, ready=(), is_placing=False), ()


def _broken(roll: Roll, pair: tuple[str, str] | None) -> tuple[Roll, Acts]:
    if pair is not None:
        roll = replace(roll, avoid=roll.avoid | {_sorted(pair)})
        if not roll.ready or any(_sorted(each) == _sorted(pair) for each in pairwise(roll.ready)):
            roll = replace(roll, ready=(), is_placing=False)  # Chosen before that was known.
    return _claim(roll) if roll.phase is Phase.WRITING else (roll, ())


def _claim(roll: Roll) -> tuple[Roll, Acts]:
    return replace(roll, phase=Phase.CLAIMING), (ClaimNow(roll.rules.by),)


def _claimed(roll: Roll, record: Record) -> tuple[Roll, Acts]:
    if record.sealing_by != roll.rules.by:
        raise InputError(f"the record is claimed by {record.sealing_by!r}, not {roll.rules.by!r}")
    roll = replace(roll, record=record, answers=(), sealed=None)
    if record.open is None:
        return _ended(roll)
    return replace(roll, phase=Phase.FENCING), (_fence(record),)


def _fence(record: Record) -> FenceNow:
    if record.open is None:  # pragma: no cover
        raise InputError("no block is open")
    return FenceNow(record.open.number, record.epoch, record.open.locations)


def _answered(roll: Roll, answer: Answer) -> tuple[Roll, Acts]:
    others = tuple(each for each in roll.answers if each.location != answer.location)
    roll = replace(roll, answers=(*others, answer))
    is_all = roll.record.open is not None and len(roll.answers) == len(roll.record.open.locations)
    return _decided(roll) if is_all else (roll, ())


def _decided(roll: Roll) -> tuple[Roll, Acts]:
    """Seal by the answers there are; with none that counts, ask again: nothing is invented."""
    act = _fence(roll.record)
    found = decide(act.locations, roll.answers, is_synced=roll.rules.is_synced)
    if isinstance(found, Wait):
        return roll, (FenceNow(act.number, act.epoch, found.missing or act.locations),)
    return _ended(replace(roll, sealed=found))


def _ended(roll: Roll) -> tuple[Roll, Acts]:
    if _silent(roll) & set(roll.ready):
        roll = replace(roll, ready=(), is_placing=False)  # Chosen when they were heard yet.
    if roll.is_closing or roll.ready:
        return _commit(roll)
    act = PlaceNow(roll.record.next_number, roll.avoid, ahead=False)
    return replace(roll, phase=Phase.PLACING), (act,)


def _silent(roll: Roll) -> set[str]:
    """Give the locations of the block that ends which did not promise."""
    if roll.record.open is None:
        return set()
    return set(roll.record.open.locations) - {answer.location for answer in roll.answers}


def _commit(roll: Roll) -> tuple[Roll, Acts]:
    following = None if roll.is_closing else Following(roll.rules.by, roll.ready)
    act = CommitNow(Claim(roll.record.epoch, roll.rules.by), roll.sealed, following)
    return replace(roll, phase=Phase.COMMITTING), (act,)


def _committed(roll: Roll, record: Record) -> tuple[Roll, Acts]:
    """Cut the copies now that the record says where, and go on in the next block."""
    acts: Acts = ()
    if roll.sealed is not None and roll.record.open is not None:
        acts = (CutNow(roll.record.open.number, roll.sealed),)
    fresh = Roll(roll.rules, record, avoid=roll.avoid)
    if record.open is None:
        return replace(fresh, phase=Phase.CLOSED, is_closing=True), acts
    if roll.is_closing:  # Asked for when the commit was under way.
        closing, more = close(fresh)
        return closing, acts + more
    return fresh, acts


def _sorted(pair: tuple[str, str]) -> tuple[str, str]:
    return min(pair), max(pair)
