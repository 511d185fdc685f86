"""Items, back into scopes, and these into resources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.otlp.attributes_out import write_attributes
from quiver.otel.otlp.containers import ABSENT, ENTITY_REFS, NO_RESOURCE, NO_SCOPE
from quiver.otel.otlp.rows import Rows
from quiver.otel.wire import Flags, Ints, Messages

__all__ = ["Groups", "grouped", "write_request"]

_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Groups:
    """The rows of a root payload, each scope's together and each resource's together."""

    rows: Rows
    scopes: Ints
    """The first row of each scope."""
    resources: Ints
    """The first row of each resource."""


def grouped(rows: Rows) -> Groups:
    """Bring rows of one resource together, and in there those of one scope, if they are not."""
    resource, scope = rows.inside("resource").ids("id"), rows.inside("scope").ids("id")
    scopes, resources = _runs(resource, scope)
    pairs = resource[scopes] << 32 | scope[scopes] & 0xFFFF_FFFF
    if np.unique(pairs).size < scopes.size or np.unique(resource[resources]).size < resources.size:
        order = np.lexsort((scope, resource))
        rows = rows.take(order)
        scopes, resources = _runs(resource[order], scope[order])
    return Groups(rows, scopes, resources)


def _runs(resource: Ints, scope: Ints) -> tuple[Ints, Ints]:
    """Give where another scope begins, and where another resource."""
    new_resource = np.ones(resource.size, np.bool_)
    new_resource[1:] = resource[1:] != resource[:-1]
    new_scope = new_resource.copy()
    new_scope[1:] |= scope[1:] != scope[:-1]
    return np.flatnonzero(new_scope), np.flatnonzero(new_resource)


def write_request(groups: Groups, bundle: RecordBundle, items: Messages) -> bytes:
    """Write the whole request around its items."""
    count = groups.rows.count
    rows = groups.rows.take(groups.scopes)
    outer = Messages(groups.scopes.size)
    scope, there = rows.inside("scope"), _there(rows, NO_SCOPE)
    table = bundle.get("scope_attrs"), "scope_attrs"
    inner = _write_scopes(scope.take(np.flatnonzero(there)), table)
    outer.children(1, inner, there.astype(np.int64))
    outer.children(2, items, np.diff(groups.scopes, append=count))
    if (schema := rows.texts("schema_url")) is not None:
        outer.text(3, schema)
    return _write_resources(groups, bundle, outer)


def _write_scopes(rows: Rows, table: tuple[pa.RecordBatch | None, str]) -> Messages:
    out = Messages(rows.count)
    for number, name in ((1, "name"), (2, "version")):
        if (text := rows.texts(name)) is not None:
            out.text(number, text)
    write_attributes(out, 3, table, of=rows.ids("id"), room=_DEPTH - 5)
    _count(out, 4, rows)
    return out


def _write_resources(groups: Groups, bundle: RecordBundle, scopes: Messages) -> bytes:
    rows = groups.rows.take(groups.resources)
    there = _there(rows, NO_RESOURCE)
    kept = rows.take(np.flatnonzero(there))
    resource = kept.inside("resource")
    inner = Messages(kept.count)
    table = bundle.get("resource_attrs"), "resource_attrs"
    write_attributes(inner, 1, table, of=resource.ids("id"), room=_DEPTH - 4)
    _count(inner, 2, resource)
    if (refs := kept.octets(ENTITY_REFS)) is not None:
        inner.raw(refs)
    outer = Messages(rows.count)
    outer.children(1, inner, there.astype(np.int64))
    first = np.searchsorted(groups.scopes, groups.resources)
    outer.children(2, scopes, np.diff(first, append=groups.scopes.size))
    if (schema := rows.inside("resource").texts("schema_url")) is not None:
        outer.text(3, schema)
    request = Messages(1)
    request.children(1, outer, np.array([rows.count]))
    return request.to_bytes()


def _there(rows: Rows, bit: int) -> Flags:
    return rows.numbers(ABSENT, pa.uint8()) & bit == 0


def _count(out: Messages, number: int, rows: Rows) -> None:
    """Add the number of attributes that were dropped, where it is not 0."""
    dropped = rows.counts("dropped_attributes_count")
    out.varint(number, dropped, dropped > 0)
