"""AnyValue: a number that says which kind it is, and a column for each kind that is there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quiver.otel.otlp.cbor import UNDEFINED, list_as_cbor, map_as_cbor
from quiver.otel.otlp.columns import Columns, rare, words
from quiver.otel.otlp.plain import read_texts
from quiver.otel.wire import (
    FEW,
    Flags,
    Ints,
    Level,
    Ranges,
    Source,
    binaries,
    check_texts,
    fixed64,
    read,
    span,
    varint,
)

__all__ = [
    "BOOL",
    "BYTES",
    "CASES",
    "DOUBLE",
    "EMPTY",
    "INT",
    "LIST",
    "MAP",
    "STR",
    "Values",
    "read_values",
]

EMPTY, STR, INT, DOUBLE, BOOL, MAP, LIST, BYTES = range(8)
"""The kinds as OTAP numbers them."""


class _Case(NamedTuple):
    tag: int
    kind: int


CASES: Final = (
    _Case(span(1), STR),
    _Case(varint(2), BOOL),
    _Case(varint(3), INT),
    _Case(fixed64(4), DOUBLE),
    _Case(span(5), LIST),
    _Case(span(6), MAP),
    _Case(span(7), BYTES),
)
"""The tag of each kind."""
_TAGS: Final = tuple(case.tag for case in CASES)


@dataclass(frozen=True, slots=True)
class Values:
    """So many values; ``there`` says which of them came as a message at all."""

    kind: NDArray[np.uint8]
    there: Flags
    columns: dict[str, pa.Array[Any]]

    def add_to(self, columns: Columns) -> None:
        """Add the columns of all kinds that are there, and the one that says the kind."""
        columns.add("type", pa.array(self.kind), nullable=False)
        for name in ("str", "int", "double", "bool", "bytes", "ser"):
            columns.add(name, self.columns.get(name))


def read_values(
    source: Source, parts: Ranges, *, count: int, room: int, told: bool = False
) -> Values:
    """Read so many values, of which ``parts`` are messages; they may hold others ``room`` deep.

    With ``told``, the column ``ser`` says of an empty value whether it was there.
    """
    if parts.size == count > FEW and (texts := read_texts(source, parts)) is not None:
        return Values(np.full(count, STR, np.uint8), np.ones(count, np.bool_), {"str": texts})
    level = read(source, parts, _TAGS, count=count)
    kind, there = _kinds(level), np.zeros(count, np.bool_)
    if span(1) in level and level.ranges(1).size > np.count_nonzero(kind == STR):
        check_texts(source, level, 1)  # Some that another value took the place of.
    there[parts.owner] = True
    columns: dict[str, pa.Array[Any]] = {}
    for name, case in (("str", STR), ("bytes", BYTES)):
        if (of_it := kind == case).any():
            start, end = level.last_range(1 if case == STR else 7)
            start = np.where(of_it, start, -1)
            values = binaries(source, start, end)
            columns[name] = words(values, start, least=16, text=case == STR)
    if (of_it := kind == INT).any():
        columns["int"] = pa.array(level.last(varint(3)).view(np.int64), mask=~of_it)
    if (of_it := kind == DOUBLE).any():
        columns["double"] = pa.array(level.last(fixed64(4)).view(np.float64), mask=~of_it)
    if (of_it := kind == BOOL).any():
        columns["bool"] = pa.array(level.last(varint(2)) != 0, mask=~of_it)
    rows, nested = _nested(source, level, kind, room=room)
    if told and not there.all():
        missing = np.flatnonzero(~there)
        rows, nested = np.concatenate([rows, missing]), nested + [UNDEFINED] * missing.size
    if nested:
        columns["ser"] = rare(rows, nested, count)
    return Values(kind, there, columns)


def _kinds(level: Level) -> NDArray[np.uint8]:
    """Tell of each value which kind it has: the one that came last."""
    kind, fields = np.zeros(level.count, np.uint8), 0
    found = [case for case in CASES if case.tag in level]
    for tag, case in found:
        owner = level.fields(tag)[0]
        kind[owner], fields = case, fields + owner.size
    if fields == np.count_nonzero(kind):  # Nobody has two.
        return kind
    last = np.full(level.count, -1, np.int64)
    for tag, case in found:
        at = level.last_at(tag)
        later = at > last
        kind[later] = case
        np.maximum(last, at, out=last)
    return kind


def _nested(
    source: Source, level: Level, kind: NDArray[np.uint8], *, room: int
) -> tuple[Ints, list[bytes]]:
    """Give lists and maps as CBOR, one after another: which rows, and what they are."""
    rows: list[Ints] = []
    nested: list[bytes] = []
    for number, case, as_cbor in ((5, LIST, list_as_cbor), (6, MAP, map_as_cbor)):
        if span(number) not in level:
            continue
        before = np.full(level.count, -1, np.int64)  # The last that was of another kind.
        for tag in _TAGS:
            if tag != span(number) and tag in level:
                np.maximum(before, level.last_at(tag), out=before)
        parts = level.ranges(number)
        kept = (kind[parts.owner] == case) & (parts.start > before[parts.owner])
        for start, end in zip(parts.start[~kept], parts.end[~kept], strict=True):
            as_cbor(source, [(int(start), int(end))], room - 1)  # Nothing is kept but the verdict.
        owner, first = np.unique(parts.owner[kept], return_index=True)
        starts, ends = parts.start[kept].tolist(), parts.end[kept].tolist()
        bounds = [*first.tolist(), len(starts)]
        rows.append(owner)
        nested += [
            as_cbor(source, list(zip(starts[low:high], ends[low:high], strict=True)), room - 1)
            for low, high in pairwise(bounds)
        ]
    return np.concatenate([np.empty(0, np.int64), *rows]), nested
