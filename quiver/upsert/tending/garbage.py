"""What may be deleted: files that were dropped a while ago, and files that nobody ever named. Pure.

=========================  ===================================================================
a file goes if it          because
=========================  ===================================================================
was dropped a grace ago    who read the manifest before that may be reading it still
or is named by nothing,    it was written by a task that died or was done twice, or by a writer
and was put and minted     that is fenced; a younger one may be on its way into the manifest
a grace ago
or is of a probe, and was  who tried the store was killed in the middle of that
put a grace ago
=========================  ===================================================================

Times are by the clock of the store. A name from a clock that is fast says nothing of its age, and
a time of dropping that is yet to come is set to now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from quiver.ship.batch import name_time_ms
from quiver.ship.objects import Listed
from quiver.ship.objects.probe import PROBES, is_probed
from quiver.upsert.persist.format import Dropped, Manifest

__all__ = ["ENDING", "FOLDERS", "Moment", "expired", "named_by", "orphans", "restamped"]

_OURS: Final = ("runs/", "bases/")
FOLDERS: Final = (*_OURS, PROBES)
"""Where files lie that nobody may have named."""
ENDING: Final = ".arrow"


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, by two clocks, and the grace."""

    store_ms: int
    """By the clock that stamps objects."""
    local_ms: int
    grace_ms: int


def expired(dropped: Iterable[Dropped], moment: Moment) -> list[str]:
    """Choose the files that were dropped long enough ago."""
    return [each.name for each in dropped if moment.store_ms - each.wall_ms >= moment.grace_ms]


def restamped(dropped: Sequence[Dropped], moment: Moment) -> tuple[Dropped, ...]:
    """Give the same without times to come: a clock was set back."""
    return tuple(each._replace(wall_ms=min(each.wall_ms, moment.store_ms)) for each in dropped)


def named_by(manifest: Manifest) -> set[str]:
    """Give the names of all files that a manifest knows."""
    return {each.name for part in (manifest.files, manifest.dropped) for each in part}


def orphans(listed: Iterable[Listed], named: AbstractSet[str], moment: Moment) -> list[Listed]:
    """Choose the files of ours that nobody names and that are old enough."""
    found = []
    for each in listed:
        is_old = moment.store_ms - each.changed_ms >= moment.grace_ms
        if is_probed(each.key):
            found += [each] if is_old else []
            continue
        folder, _, name = each.key.rpartition("/")
        minted_ms = name_time_ms(name, ending=ENDING)
        if f"{folder}/" not in _OURS or minted_ms is None or each.key in named:
            continue
        age_ms = moment.local_ms - minted_ms
        if is_old and not 0 <= age_ms < moment.grace_ms:
            found.append(each)
    return found
