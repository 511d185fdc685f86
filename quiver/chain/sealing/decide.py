"""Where a block ends: a pure decision from what its locations said when they were fenced.

A bundle reaches a location only through the one before it, which has written it by then, so the
copies are prefixes of each other; and no reader sees it before all of them have synced it. Whoever
is fenced lets nothing more through. So the shortest of the copies that were fenced has all that any
reader saw, or will see, and nobody needs a quorum: one answer is enough.
``tests/kit/chain_model.py`` tries every order of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from quiver.errors import InputError

__all__ = ["Answer", "Decision", "Sealed", "Wait", "decide"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a location has of a block, and will not add to: it was fenced before it said so."""

    location: str
    length: int
    """Bytes of whole entries; synced before the answer."""
    last_seq: int
    """``wal_seq`` of the last entry; -1 if there is none."""
    start: int
    """Ingestion time of the first entry in ns."""
    end: int
    """Ingestion time of the last entry."""
    is_rebooted: bool = False
    """Its machine has started anew since it opened the block: what was not synced may be gone."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """Where the block ends, and who has all of it."""

    length: int
    last_seq: int
    start: int
    end: int
    keep: tuple[str, ...]
    """Locations with at least ``length`` bytes, in the order of the chain; they cut the rest."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be decided before ``missing`` answer."""

    missing: tuple[str, ...]


Decision: TypeAlias = Sealed | Wait


def decide(locations: Sequence[str], answers: Iterable[Answer], *, is_synced: bool) -> Decision:
    """Decide where a block ends by the answers of its locations; any number may be missing.

    ``is_synced`` says that readers see what each location has synced. If not, a machine that
    started anew may have less than readers saw: it is asked only if all of them did, and then all
    have to answer and the longest counts. Raises InputError for an answer of no location of the
    block.
    """
    by_name = {answer.location: answer for answer in answers}
    strangers = by_name.keys() - set(locations)
    if strangers:
        raise InputError(f"{', '.join(sorted(strangers))} is no location of the block")
    fenced = [by_name[name] for name in locations if name in by_name]
    missing = tuple(name for name in locations if name not in by_name)
    if not fenced:
        return Wait(missing)
    trusted = fenced if is_synced else [each for each in fenced if not each.is_rebooted]
    if trusted:
        last = min(trusted, key=lambda each: each.length)
    elif missing:
        return Wait(missing)
    else:
        last = max(fenced, key=lambda each: each.length)
    keep = tuple(each.location for each in fenced if each.length >= last.length)
    return Sealed(last.length, last.last_seq, last.start, last.end, keep)
