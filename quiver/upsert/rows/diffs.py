"""From what was to what is: the rows that go and the rows that come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.schemas import same_type
from quiver.upsert.rows.columns import Mask, Places, concat, is_true, taken, valid, whole
from quiver.upsert.rows.commands import Commands
from quiver.upsert.rows.definition import DIFF, ERROR, HASH, KEY, TIME, VALUE, Definition
from quiver.upsert.rows.looked import Looked
from quiver.upsert.rows.sameness import same_values

__all__ = ["differences"]


def differences(commands: Commands, looked: Looked, time: int) -> pa.Table:
    """Give the differences that commands make, one for each key, to what was looked up.

    A row that goes comes before the one that takes its place, and both where the command was; a
    row that would be replaced by the same is left alone. The schema is ``Definition.diffs``.
    """
    found = looked.index >= 0
    old = {name: whole(looked.rows, name) for name in (HASH, KEY, VALUE, ERROR)}
    if not same_type(old[KEY].type, commands.keys.type) or not same_type(
        old[VALUE].type, commands.values.type
    ):
        raise InputError(
            f"commands are of {commands.keys.type} and {commands.values.type},"
            f" the collection of {old[KEY].type} and {old[VALUE].type}",
            hint="give prepare the definition of the collection",
        )
    comes = valid(commands.values) | valid(commands.errors)
    both = np.flatnonzero(found & comes)
    same = np.zeros(len(commands), np.bool_)
    same[both] = _unchanged(commands, old, (both, looked.index[both]))
    goes = np.flatnonzero(found & ~same)
    comes_at = np.flatnonzero(comes & ~same)
    minus = looked.index[goes]
    new = {KEY: commands.keys, VALUE: commands.values, ERROR: commands.errors}
    of_place = np.full(2 * len(commands), -1, np.int64)  # Two for each: what goes, what comes.
    of_place[goes * 2] = minus
    of_place[comes_at * 2 + 1] = comes_at + looked.rows.num_rows
    places = np.flatnonzero(of_place >= 0)
    rows = of_place[places]
    columns: dict[str, Any] = {HASH: commands.hashes[places >> 1]}
    for name in (KEY, VALUE, ERROR):
        columns[name] = taken(concat([old[name], new[name]]), rows)
    columns[TIME] = np.full(len(rows), time, np.uint64)
    columns[DIFF] = (places & 1) * 2 - 1
    return pa.Table.from_arrays(
        [pa.array(column) for column in columns.values()], schema=_schema(commands)
    )


def _unchanged(commands: Commands, old: dict[str, Any], at: tuple[Places, Places]) -> Mask:
    ours, theirs = at
    same = same_values(taken(commands.values, ours), taken(old[VALUE], theirs))
    errors, before = taken(commands.errors, ours), taken(old[ERROR], theirs)
    if errors.null_count == len(errors) and before.null_count == len(before):
        return same
    equal = is_true(pc.equal(errors, before))
    return same & (equal | (~valid(errors) & ~valid(before)))


def _schema(commands: Commands) -> pa.Schema:
    key = pa.schema(list(commands.keys.type))
    return Definition(key, pa.schema(list(commands.values.type)), 1).diffs
