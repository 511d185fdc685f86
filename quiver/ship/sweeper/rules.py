"""Which objects may go. Pure: what a listing shows and what the manifest names in, names out.

A batch goes if all of this holds:

=============================  ================================================================
it                             because
=============================  ================================================================
is ``<ULID>.batch``            all else is somebody else's
is named by no entry           what is named is not consumed yet
changed ``grace`` ago          its append may be on its way; both times are the store's own
was minted ``grace`` ago       the same, for a store whose times are not to be trusted
was minted before all that     its append may be late: who is not in yet is younger than who is
waits in the queue
=============================  ================================================================

A name from a clock that is slow makes its batch older than it is, which is why the store's own
time is asked too. A name that is yet to come is from a clock that is fast and says nothing: the
time at which the object changed counts alone, else what such a producer left would stay until
then. Pages have no order: the last rule is not for them; instead one stays while its entries are
the oldest in line, for then it may still be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from quiver.ship.batch import name_time_ms
from quiver.ship.objects import Listed

__all__ = ["GRACE", "GRACE_MIN", "PAGE", "Candidate", "Times", "candidates", "doomed", "oldest_of"]

GRACE: Final = "10m"
"""How old what nobody names has to be, unless the caller says otherwise."""
GRACE_MIN: Final = "6m"
"""No less: a producer appends what it put up to five minutes ago, and takes a while for that."""
PAGE: Final = ".page"


@dataclass(frozen=True, slots=True)
class Times:
    """The moment of a round, by two clocks, and the grace."""

    store_ms: int
    """By the clock that stamps objects."""
    local_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object of ours that is old enough."""

    key: str
    size: int
    born_ms: int
    is_page: bool


def candidates(objects: Iterable[Listed], times: Times) -> dict[str, Candidate]:
    """Choose by name and age, before anybody knows what is named."""
    found = {}
    for each in objects:
        minted_ms = name_time_ms(each.key)
        is_page = minted_ms is None
        if is_page:
            minted_ms = name_time_ms(each.key, ending=PAGE)
        if minted_ms is None:
            continue
        age_ms = times.local_ms - minted_ms
        if times.store_ms - each.changed_ms >= times.grace_ms and not 0 <= age_ms < times.grace_ms:
            born_ms = min(minted_ms, each.changed_ms)
            found[each.key] = Candidate(each.key, each.size, born_ms, is_page)
    return found


def oldest_of(found: Mapping[str, Candidate], waiting: Iterable[str]) -> int | None:
    """Say when the oldest batch was born that waits in the queue; None if none does."""
    times = (_time_of(key, found) for key in waiting)
    return min((time for time in times if time is not None), default=None)


def doomed(
    found: Iterable[Candidate], named: AbstractSet[str], oldest_ms: int | None
) -> list[Candidate]:
    """Choose those that nobody names and that are older than all batches that wait."""
    return [
        each
        for each in found
        if each.key not in named and (each.is_page or oldest_ms is None or each.born_ms < oldest_ms)
    ]


def _time_of(key: str, found: Mapping[str, Candidate]) -> int | None:
    """Say when a batch was born; by the last part of its name, wherever it lies."""
    if key in found:
        return found[key].born_ms
    return name_time_ms(key.rpartition("/")[2])
