"""What the requests of all signals have in common: resources, scopes in them, items in these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.attributes import read_attributes
from quiver.otel.otlp.columns import Columns, rare, text_column
from quiver.otel.otlp.limits import Limits
from quiver.otel.wire import (
    Flags,
    Ints,
    Level,
    Ranges,
    Source,
    check_texts,
    frame,
    read,
    span,
    varint,
    whole,
)

__all__ = ["ABSENT", "ENTITY_REFS", "NO_RESOURCE", "NO_SCOPE", "Part", "read_parts"]

ABSENT: Final = "quiver_absent"
"""A column of ours: which messages around an item did not come at all, as bits."""
NO_RESOURCE, NO_SCOPE = 1, 2
ENTITY_REFS: Final = "quiver_entity_refs"
"""A column of ours: the references of a resource to entities, as OTLP's Resource."""

_ID: Final = pa.uint16()


@dataclass(frozen=True, slots=True)
class Part:
    """Items of a request that make one batch, and what is around them."""

    items: Ranges
    """The messages, numbered from 0."""
    around: list[tuple[str, pa.Array[Any]]]
    """Columns of the root payload: resource, scope, schema_url."""
    ours: list[tuple[str, pa.Array[Any]]]
    """Columns that OTAP does not have, for the end of the root payload."""
    payloads: dict[str, pa.RecordBatch]
    """The attributes of resources and scopes, by slot."""


@dataclass(frozen=True, slots=True)
class _Around:
    """All resources or all scopes of a request."""

    outer: Level
    """What holds the message: ResourceLogs, ScopeLogs, and so on."""
    inner: Level
    """The message: Resource or InstrumentationScope."""
    there: Flags
    slot: str
    depth: int

    @property
    def attributes(self) -> int:
        return 1 if self.slot == "resource_attrs" else 3


def read_parts(source: Source, limits: Limits) -> Iterator[Part]:
    """Go through the items of a request, as many at once as a batch may have."""
    resources = read(source, whole(source), [span(1)], count=1).ranges(1).each_its_own()
    outer = read(source, resources, [span(1), span(2), span(3)], count=resources.size)
    within = outer.ranges(2)
    scopes = within.each_its_own()
    middle = read(source, scopes, [span(1), span(2), span(3)], count=scopes.size)
    items = middle.ranges(2)
    if items.size > limits.items:
        raise InputError(f"a request with {items.size} items; at most {limits.items} are taken")
    inner = read(source, outer.ranges(1), [span(1), varint(2), span(3)], count=resources.size)
    tags = [span(1), span(2), span(3), varint(4)]
    scope = read(source, middle.ranges(1), tags, count=scopes.size)
    both = (
        _Around(outer, inner, outer.last_at(span(1)) >= 0, "resource_attrs", 4),
        _Around(middle, scope, middle.last_at(span(1)) >= 0, "scope_attrs", 5),
    )
    for texts, number in ((outer, 3), (middle, 3), (scope, 1), (scope, 2)):
        check_texts(source, texts, number)
    refs = _entity_refs(source, inner)
    used = np.unique(items.owner)
    _check_unused(source, both[1], used, limits=limits)
    _check_unused(source, both[0], np.unique(within.owner[used]), limits=limits)
    for low in range(0, items.size, limits.batch_items):
        part = slice(low, low + limits.batch_items)
        in_scope = items.owner[part]
        rows = (within.owner[in_scope], in_scope)
        taken = Ranges(np.arange(in_scope.size), items.start[part], items.end[part])
        yield _part(source, both, (taken, rows, refs), limits=limits)


def _part(
    source: Source,
    both: tuple[_Around, _Around],
    taken: tuple[Ranges, tuple[Ints, Ints], dict[int, bytes]],
    *,
    limits: Limits,
) -> Part:
    items, rows, refs = taken
    payloads: dict[str, pa.RecordBatch] = {}
    structs = []
    for around, of_row in zip(both, rows, strict=True):
        used, ids = np.unique(of_row, return_inverse=True)
        attributes = around.inner.ranges(around.attributes)
        mine = _of(attributes, used)
        table = read_attributes(source, mine, ids=_ID, limits=limits, depth=around.depth)
        if table is not None:
            payloads[around.slot] = table
        structs.append(_struct(source, around, (of_row, ids)))
    around_ = [("resource", structs[0]), ("scope", structs[1])]
    if (schema := _text(source, both[1].outer, (3, rows[1]))) is not None:
        around_.append(("schema_url", schema))
    ours: list[tuple[str, pa.Array[Any]]] = []
    absent = np.where(both[0].there, 0, NO_RESOURCE)[rows[0]]
    absent |= np.where(both[1].there, 0, NO_SCOPE)[rows[1]]
    if absent.any():
        ours.append((ABSENT, pa.array(absent.astype(np.uint8))))
    if refs and (has := np.isin(rows[0], list(refs))).any():
        where = np.flatnonzero(has)
        told = [refs[each] for each in rows[0][where].tolist()]
        ours.append((ENTITY_REFS, rare(where, told, items.size)))
    return Part(items, around_, ours, payloads)


def _of(ranges: Ranges, used: Ints) -> Ranges:
    """Give those of these owners, which are numbered anew."""
    place = np.searchsorted(used, ranges.owner)
    kept = used[np.minimum(place, used.size - 1)] == ranges.owner
    return Ranges(place[kept], ranges.start[kept], ranges.end[kept])


def _struct(source: Source, around: _Around, rows: tuple[Ints, Ints]) -> pa.Array[Any]:
    of_row, ids = rows
    columns = Columns()
    columns.add("id", pa.array(ids.astype(np.uint16)))
    if around.slot == "resource_attrs":
        columns.add("schema_url", _text(source, around.outer, (3, of_row)))
        columns.count("dropped_attributes_count", around.inner.last(varint(2))[of_row])
    else:
        columns.add("name", _text(source, around.inner, (1, of_row)))
        columns.add("version", _text(source, around.inner, (2, of_row)))
        columns.count("dropped_attributes_count", around.inner.last(varint(4))[of_row])
    return columns.struct()


def _text(source: Source, level: Level, of: tuple[int, Ints]) -> pa.Array[Any] | None:
    """Give a text that resources or scopes have, for each row."""
    number, rows = of
    column = text_column(source, level.last_range(number))
    if column is None:
        return None
    column = column.take(rows)
    return None if column.null_count == len(column) else column


def _check_unused(source: Source, around: _Around, used: Ints, *, limits: Limits) -> None:
    """Refuse what is malformed around no item, too, though nothing is kept of it."""
    attributes = around.inner.ranges(around.attributes)
    unused = ~np.isin(attributes.owner, used)
    rest = Ranges(attributes.owner[unused], attributes.start[unused], attributes.end[unused])
    read_attributes(source, rest, ids=pa.int64(), limits=limits, depth=around.depth)


def _entity_refs(source: Source, resources: Level) -> dict[int, bytes]:
    """Give the references of each resource that has some, as the fields they came in."""
    parts = resources.ranges(3)
    if not parts.size:
        return {}
    tags = [span(number) for number in (1, 2, 3, 4)]
    level = read(source, parts.each_its_own(), tags, count=parts.size)
    for number in (1, 2, 3, 4):
        check_texts(source, level, number)
    found: dict[int, list[bytes]] = {}
    for owner, start, end in zip(
        parts.owner.tolist(), parts.start.tolist(), parts.end.tolist(), strict=True
    ):
        found.setdefault(owner, []).append(frame(3, source.data[start:end]))
    return {owner: b"".join(told) for owner, told in found.items()}
