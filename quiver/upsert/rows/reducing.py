"""One command for each key: the one with the greatest order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from quiver.casts.nested import decode
from quiver.errors import InputError
from quiver.upsert.rows.columns import Mask, Places, numbers, taken, valid
from quiver.upsert.rows.commands import Commands
from quiver.upsert.rows.grouping import Groups, group

__all__ = ["reduce", "settled"]


def reduce(commands: Commands, rows: Places | None = None) -> Commands:
    """Keep one command of each key, sorted by hash, and by the bytes of keys where hashes meet.

    It is the one with the greatest order, of several the first; without an order the last. With
    ``rows``, which ascend, of these alone: sooner than if they were taken before.
    """
    groups = group(commands.hashes, commands.keys, rows)
    if len(groups.starts) == len(groups.places):
        return commands.take(groups.places)
    if commands.order is None:
        return commands.take(np.maximum.reduceat(groups.places, groups.starts))
    return commands.take(_winners(groups, commands.order))


def settled(commands: Commands) -> Commands:
    """Leave the order out where it is that of the rows, as in a log: then the last one counts.

    It is told by whole numbers and times alone; commands that are put behind these need another
    look.
    """
    order = commands.order
    if order is None or not len(commands):
        return commands
    equal: Mask | None = None
    for column in order.flatten():
        if not _is_number(column):
            return commands
        ranks = _ranks(column)
        here, behind = ranks[:-1], ranks[1:]
        if equal is None:
            back, equal = behind < here, behind == here
        else:
            back = equal & (behind < here)
            equal &= behind == here
        if back.any():
            return commands
        if not equal.any():
            return replace(commands, order=None)
    return commands


def _winners(groups: Groups, order: pa.StructArray) -> Places:
    """Give for each key the place of the first of its commands with the greatest order.

    Column by column, and only for keys between whose commands no column before has decided.
    """
    sizes = groups.sizes
    winners = np.zeros(len(sizes), np.int64)
    winners[sizes == 1] = groups.places[groups.starts[sizes == 1]]
    owner = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    open_ = np.repeat(sizes > 1, sizes)
    places, owner = groups.places[open_], owner[open_]
    for column in order.flatten():
        if not len(places):
            break
        ranks = _ranks(taken(column, places))
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        counts = np.diff(starts, append=len(owner))
        best = ranks == np.repeat(np.maximum.reduceat(ranks, starts), counts)
        places, owner = places[best], owner[best]
    if len(places):
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        winners[owner[starts]] = np.minimum.reduceat(places, starts)
    return winners


def _ranks(column: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    """Give numbers that are in the order of a column's values, equal for equal ones."""
    plain = decode(column)
    kind = plain.type
    if kinds.is_struct(kind):
        raise InputError(f"commands cannot be ordered by {kind}", hint="name its columns instead")
    if kinds.is_null(kind):
        return np.zeros(len(plain), np.uint64)
    if _is_number(plain):
        width = kind.bit_width // 8
        sign = "u" if kinds.is_unsigned_integer(kind) else "i"
        return numbers(plain, f"<{sign}{width}")
    try:
        ranked: Any = pc.rank(plain, sort_keys="ascending", tiebreaker="dense")
    except pa.ArrowNotImplementedError as error:
        raise InputError(f"commands cannot be ordered by {kind}") from error
    return np.where(valid(plain), ranked.to_numpy(), np.uint64(0))  # From 1 on; null is least.


def _is_number(column: Any) -> bool:  # noqa: ANN401
    """Whether a column is whole numbers inside, none of them missing."""
    kind = column.type
    is_number = kinds.is_integer(kind) or kinds.is_temporal(kind)
    return bool(is_number and not kinds.is_interval(kind) and not column.null_count)
