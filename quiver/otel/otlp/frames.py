"""What is around the items of a request of few scopes, read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.otel.otlp.attributes import read_attributes
from quiver.otel.otlp.columns import Columns, words
from quiver.otel.otlp.containers import ABSENT, NO_RESOURCE, NO_SCOPE, Part
from quiver.otel.otlp.limits import Limits
from quiver.otel.wire import Ranges, Source, check_text, fields_of, span, varint

__all__ = ["read_frame"]

_RESOURCE: Final = {span(1): "attributes", varint(2): "dropped", span(3): "refs"}
_SCOPE: Final = {span(1): "name", span(2): "version", span(3): "attributes", varint(4): "dropped"}


@dataclass(slots=True)
class _Around:
    """A resource or a scope, and what it is in."""

    above: int = 0
    there: bool = False
    texts: dict[str, bytes] = field(default_factory=dict)
    dropped: int = 0
    attributes: list[tuple[int, int]] = field(default_factory=list)
    inside: list[tuple[int, int]] = field(default_factory=list)


def read_frame(source: Source, limits: Limits) -> Part | None:
    """Read a request with one item in each scope; None for what is better left to ``read_parts``.

    That is what came in several parts or is empty, and references to entities.
    """
    resources = list[_Around]()
    scopes = list[_Around]()
    for tag, start, end in fields_of(source, 0, source.size):
        if tag != span(1):
            continue
        resource = _around(source, (start, end), _RESOURCE)
        if resource is None or not resource.inside:
            return None
        for each in resource.inside:
            scope = _around(source, each, _SCOPE)
            if scope is None or not scope.inside:
                return None
            scope.above = len(resources)
            scopes.append(scope)
        resources.append(resource)
    return _part(source, resources, scopes, limits=limits) if scopes else None


def _around(source: Source, at: tuple[int, int], names: dict[int, str]) -> _Around | None:
    found = _Around()
    for tag, start, value in fields_of(source, *at):
        if tag == span(1):
            if found.there or not _inner(source, (start, value), names, found=found):
                return None
            found.there = True
        elif tag == span(2):
            found.inside.append((start, value))
        elif tag == span(3) and not _keep(source, found, ("schema_url", start, value)):
            return None
    return found


def _inner(source: Source, at: tuple[int, int], names: dict[int, str], *, found: _Around) -> bool:
    for tag, start, value in fields_of(source, *at):
        name = names.get(tag)
        if name == "attributes":
            found.attributes.append((start, value))
        elif name == "dropped":
            found.dropped = value & 0xFFFF_FFFF
        elif name == "refs" or (name and not _keep(source, found, (name, start, value))):
            return False
    return True


def _keep(source: Source, found: _Around, text: tuple[str, int, int]) -> bool:
    """Keep a text; False if there is one."""
    name, start, end = text
    if name in found.texts:
        return False
    found.texts[name] = source.data[start:end]
    check_text(found.texts[name], start)
    return True


def _part(
    source: Source, resources: Sequence[_Around], scopes: Sequence[_Around], *, limits: Limits
) -> Part:
    above = [scope.above for scope in scopes]
    of_scope = [resources[each] for each in above]
    resource, scope = Columns(), Columns()
    resource.add("id", pa.array(above, pa.uint16()))
    resource.add("schema_url", _texts(of_scope, "schema_url"))
    scope.add("id", pa.array(range(len(scopes)), pa.uint16()))
    for name in ("name", "version"):
        scope.add(name, _texts(scopes, name))
    for columns, those in ((resource, of_scope), (scope, scopes)):
        dropped = np.array([each.dropped for each in those], np.uint64)
        columns.count("dropped_attributes_count", dropped)
    around = [("resource", resource.struct()), ("scope", scope.struct())]
    if (schema := _texts(scopes, "schema_url")) is not None:
        around.append(("schema_url", schema))
    absent = [
        (0 if one.there else NO_RESOURCE) | (0 if other.there else NO_SCOPE)
        for one, other in zip(of_scope, scopes, strict=True)
    ]
    ours: list[tuple[str, pa.Array[Any]]] = (
        [(ABSENT, pa.array(absent, pa.uint8()))] if any(absent) else []
    )
    payloads = {}
    for slot, those, depth in (("resource_attrs", resources, 4), ("scope_attrs", scopes, 5)):
        table = read_attributes(source, _ranges(those), ids=pa.uint16(), limits=limits, depth=depth)
        if table is not None:
            payloads[slot] = table
    items = _ranges([_Around(attributes=each.inside[:1]) for each in scopes])
    return Part(items, around, ours, payloads)


def _texts(those: Iterable[_Around], name: str) -> pa.Array[Any] | None:
    told = [each.texts.get(name) or None for each in those]
    if not any(told):
        return None
    places: Any = np.arange(len(told))
    return words(pa.array(told, pa.binary()), places, least=8)


def _ranges(those: Sequence[_Around]) -> Ranges:
    """Give the attributes of all, each with the place of whose it is."""
    found = [(owner, *at) for owner, each in enumerate(those) for at in each.attributes]
    owner, start, end = np.array(found, np.int64).reshape(-1, 3).T.copy()
    return Ranges(owner, start, end)
