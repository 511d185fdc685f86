"""Many acks as few: runs instead of single bundles, so that a start does not look at each.

An ack resolves bundles, and to resolve is to unite sets: acks may change places and be united, as
far as no record of another kind is between them. Such a record ends a stretch, whoever it is
about: an unregister ends the id that the acks are of, a lease says which of them count, and a nack
does nothing to what an ack before it resolved. Acks of several subscribers in one stretch say
nothing about each other.

Only acks under one lease are united. Which of them count at all is settled before: none that a
checkpoint covers is united with one that it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from quiver.acks.records import Ack

__all__ = ["Runs", "as_entries", "joined", "united"]

Column: TypeAlias = npt.NDArray[Any]


class Runs(NamedTuple):
    """Acks as columns of one length; ``stretches`` are numbers that ascend with ``seqs``."""

    ids: Column
    stretches: Column
    segments: Column
    firsts: Column
    ends: Column
    leases: Column
    seqs: Column
    times: Column

    def at(self, places: Column) -> Runs:
        """Give those at these places, in this order."""
        return Runs(*(column[places] for column in self))


def joined(parts: Sequence[Runs]) -> Runs:
    """Put runs behind each other."""
    return Runs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def united(runs: Runs) -> Runs:
    """Give the same as few runs, each with its highest number and its latest time."""
    if len(runs.ids) == 0:
        return runs
    if not _ascend(runs):
        runs = runs.at(np.argsort(runs.ids, kind="stable"))
        if not _ascend(runs):
            runs = runs.at(np.lexsort(runs[3::-1]))
    same = runs.firsts[1:] <= runs.ends[:-1]
    for column in (runs.ids, runs.stretches, runs.segments, runs.leases):
        same &= column[1:] == column[:-1]
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    return runs.at(starts)._replace(
        ends=np.maximum.reduceat(runs.ends, starts),
        seqs=np.maximum.reduceat(runs.seqs, starts),
        times=np.maximum.reduceat(runs.times, starts),
    )


def as_entries(runs: Runs) -> list[tuple[int, Ack]]:
    """Give each as a record with its number, in order of that."""
    runs = runs.at(np.argsort(runs.seqs))
    counts = runs.ends - runs.firsts
    columns = (runs.ids, runs.segments, runs.firsts, counts, runs.times, runs.leases)
    acks = map(Ack, *(column.tolist() for column in columns))
    return list(zip(runs.seqs.tolist(), acks, strict=True))


def _ascend(runs: Runs) -> bool:
    """Whether each is at or above the one before it, by the first of four columns that differs."""
    after = np.ones(len(runs.ids) - 1, bool)
    for column in runs[3::-1]:
        after = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & after)
    return bool(after.all())
