"""Bundles of telemetry laid out by hand, and what they say as plain values, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from quiver.bundle import RecordBundle
from quiver.otel.batch import Batch
from quiver.otel.signals import ROOT_SLOTS, Signal

KINDS = {str: (1, "str"), int: (2, "int"), float: (3, "double"), bool: (4, "bool")}
WORD = pa.dictionary(pa.uint8(), pa.utf8())


def attributes(by_parent: Mapping[int, Mapping[str, Any]], *, wide: bool = False):
    """A table of attributes; None if there are none. Columns without a value are left out."""
    rows = [(parent, *pair) for parent, pairs in by_parent.items() for pair in pairs.items()]
    if not rows:
        return None
    columns: dict[str, Any] = {
        "parent_id": pa.array([row[0] for row in rows], pa.uint32() if wide else pa.uint16()),
        "key": pa.array([row[1] for row in rows], pa.utf8()).cast(WORD),
        "type": pa.array([KINDS[type(row[2])][0] for row in rows], pa.uint8()),
    }
    types = {"str": WORD, "int": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    for kind, (_, name) in KINDS.items():
        values = [row[2] if type(row[2]) is kind else None for row in rows]
        if any(value is not None for value in values):
            plain = pa.array(values, pa.utf8() if name == "str" else types[name])
            columns[name] = plain.cast(types[name])
    return pa.record_batch(columns)


def struct_ids(ids: Sequence[int | None], **others: Sequence[Any]):
    names = ["id", *others]
    arrays = [pa.array(ids, pa.uint16()), *(pa.array(each) for each in others.values())]
    return pa.StructArray.from_arrays(arrays, names)


def logs(items: Sequence[Mapping[str, Any]]) -> Batch:
    """Logs, each with ``name``, ``severity``, ``attrs``, ``resource``: a number and attributes."""
    resources: dict[int, Any] = {}
    ids: list[int | None] = []
    own: dict[int, Any] = {}
    for place, item in enumerate(items):
        ids.append(place if item.get("attrs") else None)
        if item.get("attrs"):
            own[place] = item["attrs"]
        if item.get("resource"):
            resources[item["resource"][0]] = item["resource"][1]
    root = pa.record_batch(
        {
            "id": pa.array(ids, pa.uint16()),
            "resource": struct_ids([(i.get("resource") or (None,))[0] for i in items]),
            "event_name": pa.array([i.get("name") for i in items], pa.utf8()).cast(WORD),
            "severity_number": pa.array([i.get("severity") for i in items], pa.int32()),
        }
    )
    slots = {"logs": root, "log_attrs": attributes(own), "resource_attrs": attributes(resources)}
    return Batch(Signal.LOGS, RecordBundle(slots))


def values_of(table: pa.RecordBatch | None) -> dict[int, dict[str, Any]]:
    """Attributes by parent; a key that is there twice fails."""
    found: dict[int, dict[str, Any]] = {}
    names = dict(KINDS.values())
    for row in table.to_pylist() if table is not None else []:
        of_parent = found.setdefault(row["parent_id"], {})
        assert row["key"] not in of_parent, "twice"
        of_parent[row["key"]] = row[names[row["type"]]]
        others = [row.get(name) for name in names.values() if name != names[row["type"]]]
        assert not any(each is not None for each in others)
    return found


def said(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """What logs say, in order, in the words of ``logs`` without numbers of resources."""
    found = []
    for batch in batches:
        bundle = batch.bundle
        own, ours = values_of(bundle.get("log_attrs")), values_of(bundle.get("resource_attrs"))
        parents = set()
        for row in bundle[ROOT_SLOTS[batch.signal]].to_pylist():
            resource = (row.get("resource") or {}).get("id")
            parents |= {("item", row.get("id")), ("resource", resource)}
            found.append(
                {
                    "name": row.get("event_name"),
                    "severity": row.get("severity_number"),
                    "attrs": own.get(row.get("id"), {}),
                    "resource": ours.get(resource, {}),
                }
            )
        orphans = {("item", i) for i in own} | {("resource", i) for i in ours}
        assert orphans <= parents, "attributes of nobody"
    return found
