"""Where rows come from: a split, and an offset in it; what is in already is left out by them.

Rows of one split are read in the order of their offsets, batch after batch. So what is behind the
greatest offset of a batch is all that is still to come, and one number for each split says it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.casts.picking import rows_where
from quiver.errors import InputError

__all__ = ["Ends", "SplitPlan", "numbers", "place_in"]

SPLITS_MAX: Final = 10_000
"""The manifest has a number for each split, and each append writes it."""

_BUNDLES: Final = 1 << 32
_Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Which columns name the split of a row, and which its offset.

    Of two offset columns the second counts within the first, as bundles do within a segment. A
    split is named as ``form`` says, or by the values with a ``/`` in between (``%2F`` in them).
    """

    split: tuple[str, ...]
    offset: tuple[str, ...]
    form: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.split, *self.offset)

    def name(self, values: tuple[object, ...]) -> str:
        """Give the name of the split whose columns have these values."""
        form = self.form or "/".join(["{}"] * len(self.split))
        return form.format(*map(_plain, values))


@dataclass(slots=True)
class Ends:
    """How far one task came in each split; ``floors`` are where rows begin that are not in yet."""

    plan: SplitPlan
    floors: Mapping[str, int] = field(default_factory=dict)
    next: dict[str, int] = field(default_factory=dict)
    """For each split the offset behind the greatest one."""
    left_out: int = 0
    """Rows that were in already."""

    def admit(self, values: tuple[object, ...], place: int, rows: int) -> bool:
        """Note rows that are all of one place in one split; say whether they are not in yet."""
        name = self.plan.name(values)
        self._note(name, place)
        is_new = place >= self.floors.get(name, 0)
        self.left_out += 0 if is_new else rows
        return is_new

    def sift(self, rows: pa.Table) -> pa.Table:
        """Note where rows are from, and give those that are not in yet.

        Raises InputError for a row without a place.
        """
        if not rows.num_rows:
            return rows
        offsets = self._offsets(rows)
        codes, names = self._codes(rows)
        highest = np.full(len(names), -1, np.int64)
        np.maximum.at(highest, codes, offsets)
        for name, last in zip(names, highest.tolist(), strict=True):
            self._note(name, last)
        floors = np.array([self.floors.get(name, 0) for name in names], np.int64)
        if not floors.any():
            return rows
        keep = offsets >= floors[codes]
        self.left_out += len(keep) - int(np.count_nonzero(keep))
        return rows if keep.all() else rows_where(rows, keep)

    def _note(self, name: str, last: int) -> None:
        self.next[name] = max(last + 1, self.next.get(name, 0))
        if len(self.next) > SPLITS_MAX:
            raise InputError(
                f"rows come from more than {SPLITS_MAX:,} splits",
                hint=f"is each of {', '.join(self.plan.split)} the name of a split?",
            )

    def _offsets(self, rows: pa.Table) -> _Numbers:
        first, *rest = (numbers(rows, name) for name in self.plan.offset)
        if not rest:
            return first
        (second,) = rest
        if second.max() >= _BUNDLES or first.max() >= _BUNDLES >> 1:
            raise InputError(
                f"column {self.plan.offset[1]!r} or {self.plan.offset[0]!r} has a place that is "
                "too large to be kept"
            )
        found: _Numbers = place_in(first, second)
        return found

    def _codes(self, rows: pa.Table) -> tuple[_Numbers, list[str]]:
        """Give a number for each row that stands for its split, and the names of these."""
        codes = np.zeros(rows.num_rows, np.int64)
        names: list[tuple[object, ...]] = [()]
        for name in self.plan.split:
            column: Any = rows.column(name).combine_chunks()
            if column.null_count and not self.plan.form:
                raise InputError(f"column {name!r} is null: a row has no split")
            found = column.dictionary_encode(null_encoding="encode")
            values = found.dictionary.to_pylist()
            codes = codes * len(values) + found.indices.to_numpy()
            used, codes = np.unique(codes, return_inverse=True)
            names = [
                (*names[code // len(values)], values[code % len(values)]) for code in used.tolist()
            ]
        return codes, [self.plan.name(values) for values in names]


def place_in(first: Any, second: Any) -> Any:  # noqa: ANN401
    """Give the one number for two, of numbers or of arrays of them."""
    return first * _BUNDLES + second


def _plain(value: object) -> str:
    """Write a part of the name of a split so that no two splits have one name."""
    return str(value).replace("%", "%25").replace("/", "%2F")


def numbers(rows: pa.Table, name: str) -> _Numbers:
    """Give a column of whole numbers that are not below zero; raises InputError."""
    column: Any = rows.column(name)
    if not pa.types.is_integer(column.type):
        raise InputError(f"column {name!r} is {column.type}, and an offset is a whole number")
    if column.null_count:
        raise InputError(f"column {name!r} is null: a row has no offset")
    found: _Numbers = column.to_numpy().astype(np.int64, copy=False)
    if len(found) and found.min() < 0:
        raise InputError(f"column {name!r} is below zero: that is no offset")
    return found
